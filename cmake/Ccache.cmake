# Compiles through ccache where there is one, set up so that a fresh clone in another folder hits:
# paths below the tree are hashed relative, the working folder is not hashed, and the precompiled
# header of the tests is allowed for.
find_program(LS_CCACHE ccache)
if(LS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
    CCACHE_SLOPPINESS=pch_defines,time_macros ${LS_CCACHE})
endif()

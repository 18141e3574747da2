# Compiles through ccache where there is one, set up so that a fresh clone in another folder hits:
# paths below the tree are hashed relative, the working folder is not hashed, and precompiled headers
# are allowed for. What is included is hashed as it stands (depend), not as preprocessed: gcc knows a
# header in a precompiled one by its bytes, and where only a comment had changed, one from the cache
# had it defined twice.
find_program(LS_CCACHE ccache)
if(LS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
    CCACHE_DEPEND=true CCACHE_SLOPPINESS=pch_defines,time_macros ${LS_CCACHE})
endif()

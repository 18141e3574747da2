# One function makes a library; unit tests sit beside the code and are gathered into few binaries.
#
#   ls_library(sym SOURCES expr.cc parse.cc DEPS base TESTS expr_test.cc)
#
# gives liveshape_sym (static, position independent, no exceptions) and adds expr_test.cc to the
# unit-test binary. DEPS may only name libraries listed above it in docs/architecture.md, and `schema`
# (the generated FlatBuffers header); TEST_DEPS are what only its tests need.
add_custom_target(liveshape_libraries)  # all of them: what the wasm compile check builds
function(ls_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;TESTS;TEST_DEPS" ${ARGN})
  add_library(liveshape_${name} STATIC ${ARG_SOURCES})
  target_include_directories(liveshape_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
  target_compile_definitions(liveshape_${name} PUBLIC FMT_HEADER_ONLY)
  target_compile_options(liveshape_${name} PRIVATE -fno-exceptions ${LS_WARNINGS})
  ls_link(liveshape_${name} PUBLIC ${ARG_DEPS})
  add_dependencies(liveshape_libraries liveshape_${name})
  if(ARG_TESTS)
    ls_unit_tests(${name} TESTS ${ARG_TESTS} DEPS ${name} ${ARG_TEST_DEPS})
  endif()
endfunction()

# Adds tests of library `name` to the unit-test binary (see tests/CMakeLists.txt), unless
# LS_TEST_LIBRARIES leaves that library out, as the sanitizer presets do to keep CI short.
function(ls_unit_tests name)
  cmake_parse_arguments(ARG "" "" "TESTS;DEPS" ${ARGN})
  if(NOT LS_TEST_LIBRARIES STREQUAL "all" AND NOT name IN_LIST LS_TEST_LIBRARIES)
    return()
  endif()
  list(TRANSFORM ARG_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY LS_UNIT_TESTS ${ARG_TESTS})
  set_property(GLOBAL APPEND PROPERTY LS_UNIT_TEST_DEPS ${ARG_DEPS})
endfunction()

# A program: ls_executable(liveshape SOURCES main.cc DEPS runtime backend_cpu). Exceptions are on, since
# CLI11 and GoogleTest use them; none passes through our libraries.
function(ls_executable target)
  cmake_parse_arguments(ARG "EXCLUDE_FROM_ALL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_compile_options(${target} PRIVATE ${LS_WARNINGS})
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ${ARG_EXCLUDE_FROM_ALL})
  ls_link(${target} PRIVATE ${ARG_DEPS})
endfunction()

# A Google Benchmark program of bench/, its name ending in _bench: `make bench` builds and runs all of them.
add_custom_target(liveshape_benchmarks)
function(ls_benchmark target)
  find_package(benchmark QUIET)
  if(benchmark_FOUND)
    ls_executable(${target} EXCLUDE_FROM_ALL ${ARGN})
    target_link_libraries(${target} PRIVATE benchmark::benchmark_main)
    add_dependencies(liveshape_benchmarks ${target})
  endif()
endfunction()

# Links libraries of ours, named as in ls_library.
function(ls_link target visibility)
  foreach(dep ${ARGN})
    target_link_libraries(${target} ${visibility} liveshape_${dep})
  endforeach()
endfunction()

# Toolchain for the compile check: static libraries only, nothing is linked.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# By default clang also searches /usr/include, where the host's libc would hide that wasi lacks a header
# (sys/mman.h, pthread.h). So: wasi's headers, and links to the header-only libraries alone.
set(headers ${CMAKE_BINARY_DIR}/third_party)
file(MAKE_DIRECTORY ${headers})
foreach(library fmt nlohmann hwy flatbuffers)
  file(CREATE_LINK /usr/include/${library} ${headers}/${library} SYMBOLIC)
endforeach()
set(CMAKE_CXX_FLAGS_INIT
  "-nostdlibinc -isystem /usr/include/wasm32-wasi/c++/v1 -idirafter /usr/include/wasm32-wasi -idirafter ${headers}")

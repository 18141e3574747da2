# What `cmake --install` gives: the CLI, libliveshape.so (C ABI), libliveshape.a (C++ API), headers, a CMake package
# (find_package(liveshape): liveshape::c, liveshape::cpp) and liveshape.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(runtime_libraries base sym ir ops plan artifact runtime null cpu c_api)

# One archive for C++: the objects of the libraries that a session needs.
set(objects)
foreach(library ${runtime_libraries})
  list(APPEND objects $<TARGET_OBJECTS:liveshape_${library}>)
endforeach()
add_library(liveshape_cpp STATIC ${objects})
set_target_properties(liveshape_cpp PROPERTIES OUTPUT_NAME liveshape EXPORT_NAME cpp LINKER_LANGUAGE CXX)
target_compile_features(liveshape_cpp INTERFACE cxx_std_20)
target_compile_definitions(liveshape_cpp INTERFACE FMT_HEADER_ONLY)
target_include_directories(liveshape_cpp INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/liveshape/internal>)
target_link_libraries(liveshape_cpp INTERFACE Threads::Threads)

add_library(liveshape_c SHARED ${objects})
set_target_properties(liveshape_c PROPERTIES OUTPUT_NAME liveshape EXPORT_NAME c LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/c_api/exports.map)
target_include_directories(liveshape_c INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(liveshape_c PRIVATE Threads::Threads)
target_link_options(liveshape_c PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/c_api/exports.map -Wl,--gc-sections
  -static-libstdc++ -static-libgcc)

install(TARGETS liveshape_c liveshape_cpp EXPORT liveshape)
install(EXPORT liveshape NAMESPACE liveshape:: FILE liveshape-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/liveshape)
install(FILES ${PROJECT_SOURCE_DIR}/include/liveshape/c_api.h
  ${PROJECT_SOURCE_DIR}/include/liveshape/liveshape.h
  ${PROJECT_BINARY_DIR}/generated/liveshape/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/liveshape)
# What liveshape.h includes.
foreach(header base/mutex.h base/status.h ir/dtype.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/liveshape/internal/${folder})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/liveshape-config.cmake.in
  ${PROJECT_BINARY_DIR}/generated/liveshape-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/liveshape)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/liveshape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/liveshape-config.cmake
  ${PROJECT_BINARY_DIR}/generated/liveshape-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/liveshape)
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/liveshape.pc.in
  ${PROJECT_BINARY_DIR}/generated/liveshape.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/liveshape.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

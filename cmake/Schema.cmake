# schema/NAME.fbs -> generated/NAME_generated.h, made at build time and never committed, since it asserts the
# exact version of FlatBuffers. A library that reads one says DEPS schema.
file(GLOB schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/*.fbs)
if(schemas)
  find_program(LS_FLATC flatc REQUIRED)
  set(headers)
  foreach(schema ${schemas})
    get_filename_component(name ${schema} NAME_WE)
    set(header ${PROJECT_BINARY_DIR}/generated/${name}_generated.h)
    add_custom_command(
      OUTPUT ${header}
      COMMAND ${LS_FLATC} --cpp --cpp-std c++17 --scoped-enums -o ${PROJECT_BINARY_DIR}/generated ${schema}
      DEPENDS ${schema}
      COMMENT "Generating ${name}_generated.h"
      VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  add_custom_target(liveshape_schema_header DEPENDS ${headers})
  add_library(liveshape_schema INTERFACE)
  target_include_directories(liveshape_schema INTERFACE ${PROJECT_BINARY_DIR}/generated)
  add_dependencies(liveshape_schema liveshape_schema_header)
endif()

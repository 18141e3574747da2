# schema/liveshape.fbs -> generated/liveshape_generated.h, made at build time and never committed, since
# it asserts the exact version of FlatBuffers. A library that reads it says DEPS schema.
set(schema ${PROJECT_SOURCE_DIR}/schema/liveshape.fbs)
if(EXISTS ${schema})
  find_program(LS_FLATC flatc REQUIRED)
  set(header ${PROJECT_BINARY_DIR}/generated/liveshape_generated.h)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${LS_FLATC} --cpp --cpp-std c++17 --scoped-enums -o ${PROJECT_BINARY_DIR}/generated ${schema}
    DEPENDS ${schema}
    COMMENT "Generating liveshape_generated.h"
    VERBATIM)
  add_custom_target(liveshape_schema_header DEPENDS ${header})
  add_library(liveshape_schema INTERFACE)
  target_include_directories(liveshape_schema INTERFACE ${PROJECT_BINARY_DIR}/generated)
  add_dependencies(liveshape_schema liveshape_schema_header)
endif()

# Programs of the tests that need no Criterion, for machines that have none: scripts/gpu-check runs them.
file(GLOB delta_check_support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/stepper*.c)

function(delta_add_check name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE delta_static Threads::Threads m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/checks)
endfunction()

delta_add_check(check_models ${PROJECT_SOURCE_DIR}/tests/run_models.c ${delta_check_support})

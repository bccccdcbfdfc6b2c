# libdelta, static and shared, from one compilation.
file(GLOB delta_plain_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} base/*.c plans/*.c planner/*.c runtime/*.c runtime/*/*.c)
list(FILTER delta_plain_sources EXCLUDE REGEX "^runtime/(cpu|cuda)/")
file(GLOB delta_onnx_sources CONFIGURE_DEPENDS onnx/*.c onnx/*/*.c)
file(GLOB delta_cpu_sources CONFIGURE_DEPENDS runtime/cpu/*.c runtime/cpu/*.cpp)

# Where an installed program's modules are, from the program.
include(GNUInstallDirs)
file(RELATIVE_PATH delta_libraries_beside_programs /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
set_source_files_properties(runtime/module.c PROPERTIES COMPILE_DEFINITIONS
                                                        DELTA_LIBRARIES_BESIDE_PROGRAMS="${delta_libraries_beside_programs}")

set(delta_generated ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${delta_generated})
get_filename_component(delta_proto_folder ${DELTA_ONNX_PROTO} DIRECTORY)
add_custom_command(
  OUTPUT ${delta_generated}/onnx.pb-c.c ${delta_generated}/onnx.pb-c.h
  COMMAND ${DELTA_PROTOC_C} --proto_path=${delta_proto_folder} --c_out=${delta_generated} onnx.proto
  DEPENDS ${DELTA_ONNX_PROTO}
  COMMENT "Generating the ONNX file reader"
  VERBATIM)

# The page of the report is edited as HTML, CSS and JavaScript and compiled in.
set(delta_report_folder ${PROJECT_SOURCE_DIR}/plans/report)
add_custom_command(
  OUTPUT ${delta_generated}/report_page.c
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${delta_report_folder} -DNAME=delta_report_page -DOUTPUT=${delta_generated}/report_page.c -P
          ${PROJECT_SOURCE_DIR}/cmake/page.cmake
  DEPENDS ${delta_report_folder}/page.html ${delta_report_folder}/page.css ${delta_report_folder}/page.js ${PROJECT_SOURCE_DIR}/cmake/page.cmake
  COMMENT "Generating the page of the report"
  VERBATIM)

# Only onnx/ sees protobuf, only runtime/cpu OpenMP and oneDNN: each is an object library with its own include folders.
add_library(delta_plain OBJECT ${delta_plain_sources} ${delta_generated}/report_page.c)
set(delta_parts delta_plain)
if(delta_onnx_sources)
  add_library(delta_onnx OBJECT ${delta_onnx_sources} ${delta_generated}/onnx.pb-c.c)
  set_source_files_properties(${delta_generated}/onnx.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(delta_onnx PRIVATE ${delta_generated})
  target_link_libraries(delta_onnx PRIVATE PkgConfig::PROTOBUF_C)
  list(APPEND delta_parts delta_onnx)
endif()
if(delta_cpu_sources)
  add_library(delta_cpu OBJECT ${delta_cpu_sources})
  target_include_directories(delta_cpu PRIVATE ${DELTA_DNNL_INCLUDE})
  target_link_libraries(delta_cpu PRIVATE OpenMP::OpenMP_C)
  # Nothing reads errno or the floating-point flags; results are the same, and loops with square roots and comparisons become vector code.
  target_compile_options(delta_cpu PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-O3> -fno-math-errno -fno-trapping-math)
  # Products of matrices live from fused multiply-add; plans name the instruction set that their bits depend on.
  set_source_files_properties(runtime/cpu/product.c PROPERTIES COMPILE_OPTIONS "-ffp-contract=fast")
  list(APPEND delta_parts delta_cpu)
endif()

set(delta_objects)
foreach(part ${delta_parts})
  target_include_directories(${part} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  list(APPEND delta_objects $<TARGET_OBJECTS:${part}>)
endforeach()
target_link_libraries(delta_plain PRIVATE PkgConfig::CJSON ZLIB::ZLIB)

add_library(delta_static STATIC ${delta_objects})
add_library(delta_shared SHARED ${delta_objects})
foreach(library delta_static delta_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME delta)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${library} PRIVATE PkgConfig::CJSON PkgConfig::PROTOBUF_C ZLIB::ZLIB ${DELTA_DNNL_LIBRARY} OpenMP::OpenMP_C
                                           Threads::Threads ${CMAKE_DL_LIBS} m)
endforeach()
# Before 1.0 a minor version may change the interface, so it is part of the soname.
set_target_properties(delta_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

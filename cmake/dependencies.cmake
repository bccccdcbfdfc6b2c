# What Delta links with. Each is found by its usual CMake or pkg-config name.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)

# oneDNN's CMake package asks for C++; the header and the library are enough for C.
find_path(DELTA_DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)
find_library(DELTA_DNNL_LIBRARY dnnl REQUIRED)

# The reader of ONNX files is generated from the system's own description of the format.
find_program(DELTA_PROTOC_C protoc-c REQUIRED)
find_file(DELTA_ONNX_PROTO onnx/onnx.proto REQUIRED DOC "onnx.proto of the ONNX package")

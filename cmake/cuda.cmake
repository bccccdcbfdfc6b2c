# libdelta-cuda.so: the CUDA driver, a module of its own that libdelta opens when a GPU is asked for. Its host code is compiled like the rest, its kernels by nvcc.
set(DELTA_CUDA AUTO CACHE STRING "Build the CUDA module: ON, OFF, or AUTO: where there is a toolkit with cuDNN")
set_property(CACHE DELTA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DELTA_CUDA_ROOT "" CACHE PATH "Folder of the CUDA toolkit, as scripts/cuda-toolkit makes one; by default the system's")
set(DELTA_CUDA_ARCHITECTURES 80-real 90-real 90-virtual CACHE STRING "GPUs that kernels are compiled for, as of CMAKE_CUDA_ARCHITECTURES")

include(${PROJECT_SOURCE_DIR}/cmake/cuda_texts.cmake)

set(delta_cuda_missing)
if(NOT DELTA_CUDA STREQUAL "OFF")
  if(DELTA_CUDA_ROOT)
    find_program(DELTA_NVCC nvcc PATHS ${DELTA_CUDA_ROOT}/bin NO_DEFAULT_PATH)
  else()
    find_program(DELTA_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  endif()
  if(DELTA_NVCC)
    get_filename_component(delta_nvcc_real ${DELTA_NVCC} REALPATH)
    get_filename_component(delta_cuda_folder ${delta_nvcc_real} DIRECTORY)
    get_filename_component(delta_cuda_folder ${delta_cuda_folder} DIRECTORY)
    set(delta_cuda_places ${DELTA_CUDA_ROOT} ${delta_cuda_folder})
    find_path(DELTA_CUDA_INCLUDE cuda_runtime_api.h HINTS ${delta_cuda_places} PATH_SUFFIXES include)
    find_path(DELTA_CUDNN_INCLUDE cudnn.h HINTS ${delta_cuda_places} PATH_SUFFIXES include)
    foreach(library cudart_static cublasLt cudnn nvrtc)
      find_library(DELTA_LIBRARY_${library} ${library} HINTS ${delta_cuda_places} PATH_SUFFIXES lib lib64)
      if(NOT DELTA_LIBRARY_${library})
        list(APPEND delta_cuda_missing lib${library})
      endif()
    endforeach()
    if(NOT DELTA_CUDA_INCLUDE)
      list(APPEND delta_cuda_missing cuda_runtime_api.h)
    endif()
    if(NOT DELTA_CUDNN_INCLUDE)
      list(APPEND delta_cuda_missing cudnn.h)
    endif()
  else()
    list(APPEND delta_cuda_missing nvcc)
  endif()
  if(delta_cuda_missing)
    list(JOIN delta_cuda_missing ", " delta_cuda_missing)
    if(DELTA_CUDA STREQUAL "ON")
      message(FATAL_ERROR "DELTA_CUDA is ON and these are missing: ${delta_cuda_missing}; set DELTA_CUDA_ROOT to a toolkit (scripts/cuda-toolkit makes one)")
    endif()
    message(STATUS "No CUDA module: missing ${delta_cuda_missing}")
  endif()
endif()

if(NOT DELTA_CUDA STREQUAL "OFF" AND NOT delta_cuda_missing)
  set(CMAKE_CUDA_COMPILER ${DELTA_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${DELTA_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  if(DELTA_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${DELTA_CCACHE})
  endif()
  file(GLOB delta_cuda_sources CONFIGURE_DEPENDS runtime/cuda/*.c runtime/cuda/*.cu)
  add_library(delta_cuda MODULE ${delta_cuda_sources})
  set_target_properties(
    delta_cuda
    PROPERTIES PREFIX lib
               OUTPUT_NAME delta-cuda
               CUDA_STANDARD 17
               CUDA_VISIBILITY_PRESET hidden
               CUDA_RUNTIME_LIBRARY Static
               INSTALL_RPATH_USE_LINK_PATH ON
               LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/module.map)
  target_include_directories(delta_cuda PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  delta_cuda_texts(delta_cuda)
  target_include_directories(delta_cuda SYSTEM PRIVATE ${DELTA_CUDA_INCLUDE} ${DELTA_CUDNN_INCLUDE})
  target_link_libraries(delta_cuda PRIVATE delta_static ${DELTA_LIBRARY_cublasLt} ${DELTA_LIBRARY_cudnn} ${DELTA_LIBRARY_nvrtc}
                                           ${DELTA_LIBRARY_cudart_static} Threads::Threads ${CMAKE_DL_LIBS} rt m)
  # Nothing but its table is seen from outside, and nothing is left to be found at run time.
  target_link_options(delta_cuda PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/module.map -Wl,-z,defs -Wl,--gc-sections -Wl,--as-needed)
endif()

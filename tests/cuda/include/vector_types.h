// Short vectors and the shape of a grid.
#ifndef DELTA_TESTS_CUDA_VECTOR_TYPES_H_
#define DELTA_TESTS_CUDA_VECTOR_TYPES_H_

// Vectors of 8 and 16 bytes are read and written as one, so they are aligned as such.
#define DELTA_CUDA_VECTORS(name, type)                \
  typedef struct name##2 {                            \
    type x, y;                                        \
  }                                                   \
  name##2 __attribute__((aligned(2 * sizeof(type)))); \
  typedef struct name##3 {                            \
    type x, y, z;                                     \
  }                                                   \
  name##3;                                            \
  typedef struct name##4 {                            \
    type x, y, z, w;                                  \
  }                                                   \
  name##4 __attribute__((aligned(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type))));

DELTA_CUDA_VECTORS(int, int)
DELTA_CUDA_VECTORS(uint, unsigned int)
DELTA_CUDA_VECTORS(float, float)
DELTA_CUDA_VECTORS(uchar, unsigned char)
DELTA_CUDA_VECTORS(longlong, long long)
DELTA_CUDA_VECTORS(double, double)
#undef DELTA_CUDA_VECTORS

#ifdef __cplusplus
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int width = 1, unsigned int height = 1, unsigned int depth = 1) : x(width), y(height), z(depth) {}
};
#else
typedef struct dim3 {
  unsigned int x, y, z;
} dim3;
#endif

#endif // DELTA_TESTS_CUDA_VECTOR_TYPES_H_

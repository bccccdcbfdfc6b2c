// Float math: what a device may make of products of float32 in convolutions and matrix products. A stated choice: the user's or a profile's, kept in the plan.
#ifndef DELTA_PLANS_FLOAT_MATH_H_
#define DELTA_PLANS_FLOAT_MATH_H_

// X(IDENTIFIER, name). FLOAT32: the products of float32. TF32: of factors rounded to 10 bits of fraction, by the tensor cores of GPUs from sm_80 on; sums stay
// float32. UNSAID stands in requests alone: float32, or that of the profile which the device is known by.
#define DELTA_FLOAT_MATHS(X) \
  X(UNSAID, "unsaid")        \
  X(FLOAT32, "float32")      \
  X(TF32, "tf32")
typedef enum delta_float_math {
#define DELTA_FLOAT_MATH_ENUM(id, name) DELTA_FLOAT_MATH_##id,
  DELTA_FLOAT_MATHS(DELTA_FLOAT_MATH_ENUM)
#undef DELTA_FLOAT_MATH_ENUM
} delta_float_math_t;

#endif // DELTA_PLANS_FLOAT_MATH_H_

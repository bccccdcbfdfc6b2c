// The kernel of a pointwise expression, as text for what NVRTC compiles (sources.c). expr_source.c puts before it: work_t, DELTA_RANK, DELTA_GROUP, DELTA_INPUTS, DELTA_OUTPUTS,
// the lists DELTA_EACH_INPUT(X) and DELTA_EACH_OUTPUT(X) of X(number, storage type), and delta_expression(inputs, outputs).
//
// A thread takes DELTA_GROUP neighbouring elements at a time, so that coordinates are worked out once and memory is reached in words of up to 16 bytes. It
// reads all inputs before it stores, so an output may have exactly the bytes of an input.
extern "C" __global__ void delta_pointwise(const delta_expr_args_t args) {
  const uint64_t step = (uint64_t)gridDim.x * blockDim.x * DELTA_GROUP;
  for (uint64_t first = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * DELTA_GROUP; first < args.count; first += step) {
    const uint64_t left = args.count - first;
    int64_t at[DELTA_INPUTS + 1];
    DELTA_UNROLL
    for (int k = 0; k < DELTA_INPUTS; ++k) at[k] = 0;
    uint64_t rest = first;
    DELTA_UNROLL
    for (int d = DELTA_RANK - 1; d >= 0; --d) {
      const uint64_t above = d > 0 ? delta_divide(rest, args.dims[d]) : 0;
      const int64_t coordinate = (int64_t)(rest - above * args.dims[d].divisor);
      DELTA_UNROLL
      for (int k = 0; k < DELTA_INPUTS; ++k) at[k] += coordinate * args.strides[k][d];
      rest = above;
    }
    work_t x[DELTA_INPUTS + 1][DELTA_GROUP], y[DELTA_OUTPUTS][DELTA_GROUP];
#define DELTA_LOAD(k, type) \
  delta_load_group<type, DELTA_GROUP>(args.inputs[k], at[k], args.strides[k][DELTA_RANK - 1], left, args.aligned, x[k]);
    DELTA_EACH_INPUT(DELTA_LOAD)
    delta_expression_group(x, y);
#define DELTA_STORE(k, type) \
  if (args.outputs[k]) delta_store_group<type, DELTA_GROUP>(args.outputs[k], first, left, args.aligned, y[k]);
    DELTA_EACH_OUTPUT(DELTA_STORE)
  }
}

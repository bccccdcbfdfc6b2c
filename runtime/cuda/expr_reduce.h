// The kernels of an expression whose results are reduced, as text for what NVRTC compiles (sources.c). expr_source.c puts before it, beside what expr_pointwise.h needs:
// number_t (what is summed in), DELTA_KEPT_RANK and DELTA_RANK (dimensions: the kept ones first), DELTA_TEAM (threads that share one result, a power of two),
// DELTA_TEAMS (results that a block forms at a time), DELTA_ALONG (threads of a team are neighbours, reading along the last reduced dimension; else
// threads of neighbouring results are) and lists DELTA_EACH_OUTPUT(X) of X(number, storage type, kind, start).
//
// Each thread goes through its elements in order, teams add by halves, splits of a result in order: the same sum each time.

template <typename Number>
DELTA_DEVICE Number delta_step_sum(Number sum, Number value) {
  return sum + value;
}
DELTA_DEVICE int64_t delta_step_sum(int64_t sum, int64_t value) { return (int64_t)((uint64_t)sum + (uint64_t)value); }
template <typename Number>
DELTA_DEVICE Number delta_step_mean(Number sum, Number value) {
  return delta_step_sum(sum, value);
}
template <typename Number>
DELTA_DEVICE Number delta_step_prod(Number sum, Number value) {
  return sum * value;
}
DELTA_DEVICE int64_t delta_step_prod(int64_t sum, int64_t value) { return (int64_t)((uint64_t)sum * (uint64_t)value); }
template <typename Number>
DELTA_DEVICE Number delta_step_max(Number sum, Number value) {
  return delta_beats(false, value, sum) ? value : sum;
}
template <typename Number>
DELTA_DEVICE Number delta_step_min(Number sum, Number value) {
  return delta_beats(true, value, sum) ? value : sum;
}

template <typename Number>
DELTA_DEVICE Number delta_end_sum(Number sum, uint64_t) {
  return sum;
}
template <typename Number>
DELTA_DEVICE Number delta_end_max(Number sum, uint64_t) {
  return sum;
}
template <typename Number>
DELTA_DEVICE Number delta_end_min(Number sum, uint64_t) {
  return sum;
}
template <typename Number>
DELTA_DEVICE Number delta_end_prod(Number sum, uint64_t) {
  return sum;
}
DELTA_DEVICE double delta_end_mean(double sum, uint64_t count) { return sum / (double)count; }
DELTA_DEVICE int64_t delta_end_mean(int64_t sum, uint64_t count) { return count ? sum / (int64_t)count : 0; }

// Adds the coordinates of `number` in dimensions [first, last) to the inputs' places.
DELTA_DEVICE void delta_add_places(const delta_expr_args_t &args, uint64_t number, const int first, const int last, int64_t *at) {
  DELTA_UNROLL
  for (int d = DELTA_RANK - 1; d >= 0; --d) {
    if (d < first || d >= last) continue;
    const uint64_t above = d > first ? delta_divide(number, args.dims[d]) : 0;
    const int64_t coordinate = (int64_t)(number - above * args.dims[d].divisor);
    DELTA_UNROLL
    for (int k = 0; k < DELTA_INPUTS; ++k) at[k] += coordinate * args.strides[k][d];
    number = above;
  }
}

extern "C" __global__ void delta_reduce(const delta_expr_args_t args) {
  __shared__ number_t shared[DELTA_TEAM * DELTA_TEAMS];
  const int member = DELTA_ALONG ? threadIdx.x % DELTA_TEAM : threadIdx.x / DELTA_TEAMS;
  const int team = DELTA_ALONG ? threadIdx.x / DELTA_TEAM : threadIdx.x % DELTA_TEAMS;
  const uint64_t begin = (uint64_t)blockIdx.y * args.share, rest = args.reduced - begin;
  const uint64_t end = rest < args.share ? args.reduced : begin + args.share;
  // All threads of a block go through the same rounds, since they meet at barriers.
  for (uint64_t block = (uint64_t)blockIdx.x * DELTA_TEAMS; block < args.count; block += (uint64_t)gridDim.x * DELTA_TEAMS) {
    const uint64_t result = block + team;
    number_t sums[DELTA_OUTPUTS];
#define DELTA_START(k, type, kind, start) sums[k] = start;
    DELTA_EACH_OUTPUT(DELTA_START)
    if (result < args.count) {
      int64_t base[DELTA_INPUTS + 1];
      DELTA_UNROLL
      for (int k = 0; k < DELTA_INPUTS; ++k) base[k] = 0;
      delta_add_places(args, result, 0, DELTA_KEPT_RANK, base);
      for (uint64_t first = begin + (uint64_t)member * DELTA_GROUP; first < end; first += DELTA_TEAM * DELTA_GROUP) {
        int64_t at[DELTA_INPUTS + 1];
        DELTA_UNROLL
        for (int k = 0; k < DELTA_INPUTS; ++k) at[k] = base[k];
        delta_add_places(args, first, DELTA_KEPT_RANK, DELTA_RANK, at);
        work_t x[DELTA_INPUTS + 1][DELTA_GROUP], y[DELTA_OUTPUTS][DELTA_GROUP];
#define DELTA_LOAD(k, type) \
  delta_load_group<type, DELTA_GROUP>(args.inputs[k], at[k], args.strides[k][DELTA_RANK - 1], end - first, args.aligned, x[k]);
        DELTA_EACH_INPUT(DELTA_LOAD)
        delta_expression_group(x, y);
        DELTA_UNROLL
        for (int j = 0; j < DELTA_GROUP; ++j) {
#define DELTA_STEP(k, type, kind, start) sums[k] = delta_step_##kind(sums[k], (number_t)y[k][j]);
          if (first + j < end) {
            DELTA_EACH_OUTPUT(DELTA_STEP)
          }
        }
      }
    }
#define DELTA_JOIN(k, type, kind, start)                                                                       \
  for (int half = DELTA_TEAM / 2; half > 0; half /= 2) {                                                       \
    __syncthreads();                                                                                           \
    shared[member * DELTA_TEAMS + team] = sums[k];                                                             \
    __syncthreads();                                                                                           \
    if (member < half) sums[k] = delta_step_##kind(sums[k], shared[(member + half) * DELTA_TEAMS + team]);     \
  }                                                                                                            \
  if (member == 0 && result < args.count) {                                                                    \
    if (args.splits > 1) {                                                                                     \
      ((number_t *)args.partials)[((uint64_t)blockIdx.y * DELTA_OUTPUTS + k) * args.count + result] = sums[k]; \
    } else if (args.outputs[k]) {                                                                              \
      ((type *)args.outputs[k])[result] = delta_write<type>(delta_end_##kind(sums[k], args.reduced));          \
    }                                                                                                          \
  }
    DELTA_EACH_OUTPUT(DELTA_JOIN)
  }
}

extern "C" __global__ void delta_combine(const delta_expr_args_t args) {
  const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
  for (uint64_t result = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; result < args.count; result += step) {
#define DELTA_COMBINE(k, type, kind, start)                                                                               \
  if (args.outputs[k]) {                                                                                                  \
    number_t sum = start;                                                                                                 \
    for (uint64_t split = 0; split < args.splits; ++split)                                                                \
      sum = delta_step_##kind(sum, ((const number_t *)args.partials)[(split * DELTA_OUTPUTS + k) * args.count + result]); \
    ((type *)args.outputs[k])[result] = delta_write<type>(delta_end_##kind(sum, args.reduced));                           \
  }
    DELTA_EACH_OUTPUT(DELTA_COMBINE)
  }
}

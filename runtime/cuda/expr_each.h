// The kernel of an expression over many sets of tensors, as text for what NVRTC compiles (sources.c). expr_source.c puts before it what expr_pointwise.h needs, DELTA_SET_WORDS
// (words of one set), and in place of the list of inputs DELTA_EACH_SHARED(X) of X(number, storage type), which are one element, and DELTA_EACH_OWN(X) of X(number, storage
// type, place among the set's addresses).
//
// A block belongs to one set, and its threads take DELTA_GROUP neighbouring elements each.
extern "C" __global__ void delta_each(const delta_each_args_t args) {
  uint32_t set = 0, last = args.sets - 1;
  while (set < last) {
    const uint32_t middle = (set + last + 1) / 2;
    if (args.words[middle * DELTA_SET_WORDS + DELTA_SET_FIRST_BLOCK] <= blockIdx.x)
      set = middle;
    else
      last = middle - 1;
  }
  const uint32_t base = set * DELTA_SET_WORDS;
  const uint64_t count = args.words[base + DELTA_SET_COUNT], block = blockIdx.x - args.words[base + DELTA_SET_FIRST_BLOCK];
  const uint64_t first = (block * blockDim.x + threadIdx.x) * DELTA_GROUP;
  if (first >= count) return;
  const uint64_t left = count - first;
  work_t x[DELTA_INPUTS + 1][DELTA_GROUP], y[DELTA_OUTPUTS][DELTA_GROUP];
#define DELTA_LOAD_SHARED(k, type) delta_load_group<type, DELTA_GROUP>(args.shared[k], 0, 0, left, false, x[k]);
#define DELTA_LOAD_OWN(k, type, place)                                                                                                     \
  delta_load_group<type, DELTA_GROUP>((const void *)args.words[base + DELTA_SET_ADDRESSES + place], (int64_t)first, 1, left, args.aligned, \
                                      x[k]);
  DELTA_EACH_SHARED(DELTA_LOAD_SHARED)
  DELTA_EACH_OWN(DELTA_LOAD_OWN)
  delta_expression_group(x, y);
#define DELTA_STORE(k, type)                                                           \
  {                                                                                    \
    void *to = (void *)args.words[base + DELTA_SET_WORDS - DELTA_OUTPUTS + k];         \
    if (to) delta_store_group<type, DELTA_GROUP>(to, first, left, args.aligned, y[k]); \
  }
  DELTA_EACH_OUTPUT(DELTA_STORE)
}

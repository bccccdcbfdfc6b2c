// CROSS_ENTROPY, NLL and their gradients: a team of threads for the scores of each label; gradients element by element. In float64, since every gradient of a step
// begins here: what is lost in rounding may turn a unit on or off further down.
#include "runtime/cuda/class_loss.h"

#include "runtime/cuda/grid.h"

// Labels, and what a kernel needs to know of them.
typedef struct label_set {
  const void *data;
  bool are_wide;
  bool has_ignore;
  int64_t ignore_index, classes;
} label_set_t;

static label_set_t label_set_of(const delta_cuda_class_loss_t *self, const void *labels) {
  const label_set_t set = {labels, self->labels == DELTA_DTYPE_INT64, self->has_ignore, self->ignore_index, self->classes};
  return set;
}

// The label at a position, or -1 where it does not count: ignored, or of no class.
static __device__ int64_t label_at(const label_set_t &labels, uint64_t position) {
  const int64_t label = labels.are_wide ? ((const int64_t *)labels.data)[position] : (int64_t)((const int32_t *)labels.data)[position];
  if (label < 0 || label >= labels.classes || (labels.has_ignore && label == labels.ignore_index)) return -1;
  return label;
}

template <typename T>
static __device__ typename delta_types<T>::number weight_of(const T *weights, int64_t label) {
  typedef typename delta_types<T>::number number;
  return label < 0 ? (number)0 : weights ? delta_read<number>(weights[label]) : (number)1;
}

template <typename T, typename Team>
static __global__ void cross_entropy_kernel(delta_line_set_t lines, label_set_t labels, const T *logits, const T *weights, T *loss,
                                            T *weight, T *log_sums) {
  typedef typename delta_types<T>::number number;
  __shared__ number shared[Team::SHARED];
  DELTA_EACH_ROUND(Team, block, lines) {
    const delta_line_t line = delta_line_of<Team>(lines, block);
    number largest = -INFINITY, sum = 0;
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE)
      largest = delta_larger()(largest, delta_read<number>(logits[line.start + i * lines.inner]));
    largest = Team::all(largest, delta_larger(), shared);
    const number shift = largest - largest == 0 ? largest : (number)0; // unless it is infinite
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE)
      sum += exp(delta_read<number>(logits[line.start + i * lines.inner]) - shift);
    sum = Team::all(sum, delta_add(), shared);
    if (!line.is_there || Team::member() != 0) continue;
    const number log_sum = shift + log(sum);
    const int64_t label = label_at(labels, line.number);
    const number factor = weight_of(weights, label);
    if (loss)
      loss[line.number] =
          delta_write<T>(label < 0 ? (number)0 : factor * (log_sum - delta_read<number>(logits[line.start + label * lines.inner])));
    if (weight) weight[line.number] = delta_write<T>(factor);
    if (log_sums) log_sums[line.number] = delta_write<T>(log_sum);
  }
}

// An element of [outer, classes, inner]: its class, and its position in what has no classes.
typedef struct score_place {
  delta_divisor_t by_inner, by_classes;
} score_place_t;

static score_place_t score_place_of(const delta_cuda_class_loss_t *self) {
  const uint64_t count = (uint64_t)self->outer * (uint64_t)self->classes * (uint64_t)self->inner;
  const score_place_t place = {delta_divisor_of((uint64_t)self->inner, count), delta_divisor_of((uint64_t)self->classes, count)};
  return place;
}

typedef struct score {
  int64_t own, label; // its class, and the one that its position's label is
  uint64_t position;
} score_t;

static __device__ score_t find_score(const score_place_t &place, const label_set_t &labels, uint64_t element) {
  const uint64_t line = delta_divide(element, place.by_inner), outer = delta_divide(line, place.by_classes);
  score_t score = {(int64_t)(line - outer * place.by_classes.divisor), 0,
                   outer * place.by_inner.divisor + (element - line * place.by_inner.divisor)};
  score.label = label_at(labels, score.position);
  return score;
}

template <typename T>
static __global__ void cross_entropy_grad_kernel(uint64_t count, score_place_t place, label_set_t labels, const T *dloss, const T *logits,
                                                 const T *log_sums, const T *weights, T *dlogits) {
  typedef typename delta_types<T>::number number;
  DELTA_EACH_ITEM(i, count) {
    const score_t score = find_score(place, labels, i);
    number gradient = 0;
    if (score.label >= 0) {
      const number scale = delta_read<number>(dloss[score.position]) * weight_of(weights, score.label);
      gradient = scale * (exp(delta_read<number>(logits[i]) - delta_read<number>(log_sums[score.position])) -
                          (score.own == score.label ? (number)1 : (number)0));
    }
    dlogits[i] = delta_write<T>(gradient);
  }
}

template <typename T>
static __global__ void nll_kernel(uint64_t count, int64_t inner, delta_divisor_t by_inner, label_set_t labels, const T *scores,
                                  const T *weights, T *loss, T *weight) {
  typedef typename delta_types<T>::number number;
  DELTA_EACH_ITEM(position, count) {
    const int64_t label = label_at(labels, position);
    const number factor = weight_of(weights, label);
    const uint64_t outer = delta_divide(position, by_inner);
    const int64_t start = (int64_t)outer * labels.classes * inner + (int64_t)(position - outer * by_inner.divisor);
    if (loss) loss[position] = delta_write<T>(label < 0 ? (number)0 : -factor * delta_read<number>(scores[start + label * inner]));
    if (weight) weight[position] = delta_write<T>(factor);
  }
}

template <typename T>
static __global__ void nll_grad_kernel(uint64_t count, score_place_t place, label_set_t labels, const T *dloss, const T *weights,
                                       T *gradient) {
  typedef typename delta_types<T>::number number;
  DELTA_EACH_ITEM(i, count) {
    const score_t score = find_score(place, labels, i);
    gradient[i] = delta_write<T>(score.label >= 0 && score.own == score.label
                                     ? -weight_of(weights, score.label) * delta_read<number>(dloss[score.position])
                                     : (number)0);
  }
}

cudaError_t delta_cuda_cross_entropy_launch(const delta_cuda_class_loss_t *self, const void *logits, const void *labels,
                                            const void *weights, void *loss, void *weight, void *log_sum, cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->classes, self->inner);
  if (lines.count == 0) return cudaSuccess;
#define LAUNCH(Team)                                                                                                                   \
  DELTA_CUDA_LAUNCH((cross_entropy_kernel<type, Team>), delta_blocks(lines.count, Team::LINES), DELTA_BLOCK_THREADS, 0, stream, lines, \
                    label_set_of(self, labels), (const type *)logits, (const type *)weights, (type *)loss, (type *)weight,             \
                    (type *)log_sum)
#define OF_TYPE(id, T)                   \
  case id: {                             \
    typedef T type;                      \
    DELTA_CUDA_FOR_LINES(lines, LAUNCH); \
    break;                               \
  }
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
#undef LAUNCH
}

cudaError_t delta_cuda_cross_entropy_grad_launch(const delta_cuda_class_loss_t *self, const void *dloss, const void *logits,
                                                 const void *log_sum, const void *labels, const void *weights, void *dlogits,
                                                 cudaStream_t stream) {
  const uint64_t count = (uint64_t)self->outer * (uint64_t)self->classes * (uint64_t)self->inner;
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                    \
  case id:                                                                                                                                \
    DELTA_CUDA_LAUNCH_FREE(cross_entropy_grad_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, count, \
                           score_place_of(self), label_set_of(self, labels), (const T *)dloss, (const T *)logits, (const T *)log_sum,     \
                           (const T *)weights, (T *)dlogits);                                                                             \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_nll_launch(const delta_cuda_class_loss_t *self, const void *log_probabilities, const void *labels,
                                  const void *weights, void *loss, void *weight, cudaStream_t stream) {
  const uint64_t count = (uint64_t)self->outer * (uint64_t)self->inner;
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                  \
  case id:                                                                                                                              \
    DELTA_CUDA_LAUNCH_FREE(nll_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, count, self->inner, \
                           delta_divisor_of((uint64_t)self->inner, count), label_set_of(self, labels), (const T *)log_probabilities,    \
                           (const T *)weights, (T *)loss, (T *)weight);                                                                 \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_nll_grad_launch(const delta_cuda_class_loss_t *self, const void *dloss, const void *labels, const void *weights,
                                       void *gradient, cudaStream_t stream) {
  const uint64_t count = (uint64_t)self->outer * (uint64_t)self->classes * (uint64_t)self->inner;
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                             \
  case id:                                                                                                                         \
    DELTA_CUDA_LAUNCH_FREE(nll_grad_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, count,    \
                           score_place_of(self), label_set_of(self, labels), (const T *)dloss, (const T *)weights, (T *)gradient); \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

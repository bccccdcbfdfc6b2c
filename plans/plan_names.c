// Names of enum values as plan files write them; all come from the enums' own rows.
#include "plans/plan_json.h"

#define TABLE_OF(list) \
  { list, sizeof list / sizeof *list }
#define SECOND(id, name, ...) name,

static const char *const dtype_names[] = {
#define DTYPE_NAME(id, name, size, kind, numpy, onnx) name,
    DELTA_DTYPES(DTYPE_NAME)
#undef DTYPE_NAME
};
static const char *const loss_names[] = {DELTA_LOSSES(SECOND)};
static const char *const optimizer_names[] = {DELTA_OPTIMIZERS(SECOND)};
static const char *const lever_names[] = {DELTA_LEVERS(SECOND)};
static const char *const layout_names[] = {DELTA_LAYOUTS(SECOND)};

#define PAIR_NAME(id, name) name,
static const char *const program_names[] = {DELTA_PROGRAMS(PAIR_NAME)};
static const char *const batchnorm_names[] = {DELTA_BATCHNORM_MODES(PAIR_NAME)};
static const char *const state_kind_names[] = {DELTA_STATE_KINDS(PAIR_NAME)};
static const char *const class_names[] = {DELTA_TENSOR_CLASSES(PAIR_NAME)};
static const char *const step_kind_names[] = {DELTA_STEP_KINDS(PAIR_NAME)};
static const char *const float_math_names[] = {DELTA_FLOAT_MATHS(PAIR_NAME)};
#undef PAIR_NAME

const delta_name_table_t delta_dtype_names = TABLE_OF(dtype_names), delta_loss_names = TABLE_OF(loss_names),
                         delta_optimizer_names = TABLE_OF(optimizer_names), delta_program_names = TABLE_OF(program_names),
                         delta_batchnorm_names = TABLE_OF(batchnorm_names), delta_state_kind_names = TABLE_OF(state_kind_names),
                         delta_lever_names = TABLE_OF(lever_names), delta_class_names = TABLE_OF(class_names),
                         delta_step_kind_names = TABLE_OF(step_kind_names), delta_layout_names = TABLE_OF(layout_names),
                         delta_float_math_names = TABLE_OF(float_math_names);

// Compiled expressions: a float32 expression as machine code for a run of elements, with every value in a register.
//
// Code works on a run: consecutive elements in which an input is either dense (a pointer that advances) or repeats (its values for one vector, in a slot).
// What depends on slots alone is computed once a run and stands in a slot too. Results are stored, or summed by lane in
// float64. Every instruction rounds as the plain definition does: results are those of tiles to the last bit.
#ifndef DELTA_RUNTIME_CPU_COMPILED_H_
#define DELTA_RUNTIME_CPU_COMPILED_H_

#include "base/status.h"
#include "onnx/graph/expr.h"

enum {
  DELTA_COMPILED_LANES = 16, // of a slot: the widest vector; narrower code reads the first
  DELTA_COMPILED_SLOTS = 128,
  DELTA_COMPILED_POINTERS = 13,
  // Vectors whose sums are taken together, and then added to the block's. All are float64: gradients that differ by a float32's last place end at another side of
  // a ReLU's kink.
  DELTA_COMPILED_GROUP = 8,
};

// What code reads and writes. Owned by the thread that runs it.
typedef struct delta_compiled_block {
  _Alignas(64) float slots[DELTA_COMPILED_SLOTS][DELTA_COMPILED_LANES];
  double sums[DELTA_EXPR_MAX_OUTPUTS][DELTA_COMPILED_LANES]; // a run adds to them
  // Values that are to be summed, by vector of a group.
  _Alignas(64) float kept[DELTA_COMPILED_GROUP][DELTA_EXPR_MAX_OUTPUTS][DELTA_COMPILED_LANES];
  const void *pointers[DELTA_COMPILED_POINTERS]; // of dense inputs, then of outputs that are stored or summed along
  int64_t size_bytes;                            // of the run: whole vectors, at least one
} delta_compiled_block_t;

// What becomes of the outputs.
typedef enum delta_compiled_results {
  DELTA_COMPILED_STORED,
  DELTA_COMPILED_SUMMED,       // by lane, into the block
  DELTA_COMPILED_SUMMED_ALONG, // element by element, onto float64 arrays as long as the run
} delta_compiled_results_t;

// How an expression becomes code.
typedef struct delta_compiled_spec {
  const delta_expr_t *expr;               // Borrowed; float32
  bool is_dense[DELTA_EXPR_MAX_INPUTS];   // the others stand in slots
  bool is_wanted[DELTA_EXPR_MAX_OUTPUTS]; // the others are not computed
  bool is_square[DELTA_EXPR_MAX_OUTPUTS]; // of sums: this one's are the squares, in float64, of the values of the output before it
  delta_compiled_results_t results;
} delta_compiled_spec_t;

typedef struct delta_compiled {
  delta_compiled_spec_t spec;
  bool wide;
  int32_t width; // floats of a vector
  uint32_t slot_count, pointer_count;
  uint32_t first_constant;                  // slot of the first of the functions' constants, which come last
  uint64_t constants[DELTA_COMPILED_SLOTS]; // bits of float64, in the order of their slots
  bool has_outside;
  bool is_live[DELTA_EXPR_MAX_INSTRS], is_varying[DELTA_EXPR_MAX_INSTRS];
  bool is_outside[DELTA_EXPR_MAX_INSTRS];          // does not vary, and is computed by tiles' functions before the code runs
  int16_t slot_of[DELTA_EXPR_MAX_INSTRS];          // of values that do not vary; -1: none
  int16_t slot_of_input[DELTA_EXPR_MAX_INPUTS];    // -1: dense or unused
  int16_t pointer_of_input[DELTA_EXPR_MAX_INPUTS]; // -1: in a slot or unused
  int16_t pointer_of_output[DELTA_EXPR_MAX_OUTPUTS];
  uint8_t *code;     // Owned; NULL until made.
  size_t code_bytes; // mapped
  size_t second_at;  // where the second form begins: stores around the cache, or several vectors of sums by lane at once
} delta_compiled_t;

// Floats of the vectors that this processor and the libraries' limits allow; 0: none that code is made for.
int32_t delta_compiled_width(void);

// Plans the code. Returns why there can be none, in a few words, or NULL.
const char *delta_compiled_plan(delta_compiled_t *compiled, const delta_compiled_spec_t *spec);
// Makes the code of a plan; UNSUPPORTED where the system does not let memory become code.
DELTA_MUST_USE delta_status_t delta_compiled_make(delta_compiled_t *compiled);
void delta_compiled_deinit(delta_compiled_t *compiled); // Safe on a zeroed struct.

// Once for each block: the slots of constants.
void delta_compiled_begin(const delta_compiled_t *compiled, delta_compiled_block_t *block);
// After the slots of inputs have changed: computes what follows from them.
void delta_compiled_update(const delta_compiled_t *compiled, delta_compiled_block_t *block);
// Runs the code. `streams`: stores go around the cache, to addresses that whole vectors divide; delta_compiled_end_streams makes them visible.
void delta_compiled_run(const delta_compiled_t *compiled, delta_compiled_block_t *block, bool streams);
void delta_compiled_end_streams(void);

#endif // DELTA_RUNTIME_CPU_COMPILED_H_

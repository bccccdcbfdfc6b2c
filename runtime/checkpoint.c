// Checkpoint: what of a session a file has, and how it gets there and back. Everything is checked before the first state is changed.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/checkpoint.h>
#include <delta/version.h>

#include "base/log.h"
#include "base/sha256.h"
#include "plans/plan_json.h"
#include "runtime/safetensors.h"
#include "runtime/session_parts.h"

enum { CHECKPOINT_VERSION = 1, PIECE_BYTES = 1 << 20 };

static const char format_name[] = "delta-checkpoint", texts_hash_key[] = "texts_sha256",
                  tensor_prefix[] = "tensor:", property_prefix[] = "property:";

// The integers of a position. X(key and member, smallest value)
#define POSITION_NUMBERS(X) X(step, 0) X(epoch, 0) X(epoch_samples, 0) X(data_samples, 0)
// Texts besides those of the tensors: X(key)
#define HEAD_KEYS(X) \
  X(format)          \
  X(version)         \
  X(delta_version)   \
  X(model_sha256) X(optimizer) X(numerics_id) X(step) X(epoch) X(epoch_samples) X(data_samples) X(seed) X(shuffle) X(schedule)
#define COUNT_KEY(key) +1
enum { HEAD_TEXTS = 0 HEAD_KEYS(COUNT_KEY) };

// SHA-256 of all texts but itself: a changed digit of a position is found, too.
static void hash_texts(const delta_safetensors_header_t *header, char out_hash[DELTA_SHA256_TEXT_BYTES]) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  for (uint32_t i = 0; i < header->text_count; ++i) {
    const delta_safetensors_text_t *text = &header->texts[i];
    if (strcmp(text->key, texts_hash_key) == 0) continue;
    delta_sha256_update(&hash, text->key, strlen(text->key) + 1);
    delta_sha256_update(&hash, text->value, strlen(text->value) + 1);
  }
  delta_sha256_final_text(&hash, out_hash);
}

// --- saving ------------------------------------------------------------------------------------------------------------------------------------

typedef struct saving {
  delta_session_t *session;
  delta_region_t region; // of texts
  delta_safetensors_header_t header;
  char **tensor_texts; // of the header, by tensor: "KIND SHA-256"
  char *texts_hash;
  void *piece; // Owned.
} saving_t;

static delta_status_t add_text(saving_t *saving, const char *key, char **out_value, const char *format, ...) DELTA_PRINTF(4, 5);
static delta_status_t add_text(saving_t *saving, const char *key, char **out_value, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char *value = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&saving->region, text, strlen(text), &value));
  saving->header.texts[saving->header.text_count++] = (delta_safetensors_text_t){key, value};
  if (out_value) *out_value = value;
  return DELTA_OK;
}

static delta_status_t add_head(saving_t *saving, const delta_training_position_t *position) {
  const delta_plan_t *plan = saving->session->plan;
  DELTA_RETURN_IF_ERROR(add_text(saving, "format", NULL, "%s", format_name));
  DELTA_RETURN_IF_ERROR(add_text(saving, "version", NULL, "%d", CHECKPOINT_VERSION));
  DELTA_RETURN_IF_ERROR(add_text(saving, "delta_version", NULL, "%s", DELTA_VERSION_STRING));
  DELTA_RETURN_IF_ERROR(add_text(saving, "model_sha256", NULL, "%s", plan->model_sha256));
  DELTA_RETURN_IF_ERROR(add_text(saving, "optimizer", NULL, "%s", delta_optimizer_names.names[plan->build.optimizer.kind]));
  DELTA_RETURN_IF_ERROR(add_text(saving, "numerics_id", NULL, "%s", plan->numerics.id));
#define ADD_NUMBER(member, minimum) DELTA_RETURN_IF_ERROR(add_text(saving, #member, NULL, "%" PRId64, position->member));
  POSITION_NUMBERS(ADD_NUMBER)
#undef ADD_NUMBER
  DELTA_RETURN_IF_ERROR(add_text(saving, "seed", NULL, "%" PRIu64, position->seed));
  DELTA_RETURN_IF_ERROR(add_text(saving, "shuffle", NULL, "%s", position->shuffle ? "true" : "false"));
  return add_text(saving, "schedule", NULL, "%.*s", DELTA_SCHEDULE_TEXT_BYTES - 1, position->schedule);
}

// What the program that trains wants to find again.
static delta_status_t add_properties(saving_t *saving) {
  for (size_t i = 0; i < saving->session->properties.count; ++i) {
    const delta_property_t *property = &saving->session->properties.items[i];
    char *key = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_format(&saving->region, &key, "%s%s", property_prefix, property->name));
    saving->header.texts[saving->header.text_count++] = (delta_safetensors_text_t){key, property->value};
  }
  return DELTA_OK;
}

// The header, with zeros in place of the hashes that come when the values have been seen.
static delta_status_t describe(saving_t *saving, const delta_training_position_t *position) {
  static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
  const delta_plan_t *plan = saving->session->plan;
  delta_safetensors_header_t *header = &saving->header;
  const size_t text_count = HEAD_TEXTS + 1 + plan->state_count + saving->session->properties.count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&saving->region, text_count, &header->texts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&saving->region, plan->state_count, &header->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&saving->region, plan->state_count, &saving->tensor_texts));
  DELTA_RETURN_IF_ERROR(add_head(saving, position));
  DELTA_RETURN_IF_ERROR(add_text(saving, texts_hash_key, &saving->texts_hash, "%s", zeros));
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    char *key = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_format(&saving->region, &key, "%s%s", tensor_prefix, state->name));
    DELTA_RETURN_IF_ERROR(add_text(saving, key, &saving->tensor_texts[i], "%s %s", delta_state_kind_names.names[state->kind], zeros));
    header->tensors[i] = (delta_safetensors_tensor_t){.name = state->name, .dtype = state->dtype, .shape = state->shape};
  }
  header->tensor_count = plan->state_count;
  return add_properties(saving);
}

static delta_status_t write_values(saving_t *saving, uint32_t index, delta_safetensors_writer_t *writer) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  const uint64_t size_bytes = saving->header.tensors[index].size_bytes;
  for (uint64_t done = 0; done < size_bytes; done += PIECE_BYTES) {
    const size_t part_bytes = size_bytes - done < PIECE_BYTES ? (size_t)(size_bytes - done) : PIECE_BYTES;
    DELTA_RETURN_IF_ERROR(delta_session_read_piece(saving->session, index, done, saving->piece, part_bytes));
    delta_sha256_update(&hash, saving->piece, part_bytes);
    DELTA_RETURN_IF_ERROR(delta_safetensors_writer_append(writer, saving->piece, part_bytes));
  }
  delta_sha256_final_text(&hash, strchr(saving->tensor_texts[index], ' ') + 1);
  return DELTA_OK;
}

static delta_status_t save(saving_t *saving, const char *path, const delta_training_position_t *position) {
  delta_safetensors_writer_t writer = {.file.descriptor = -1};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, describe(saving, position), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_allocate(saving->session->allocator, PIECE_BYTES, 1, &saving->piece), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_safetensors_writer_open(path, &saving->header, saving->session->allocator, &writer), cleanup);
  for (uint32_t i = 0; i < saving->header.tensor_count; ++i) DELTA_GOTO_IF_ERROR(status, write_values(saving, i, &writer), cleanup);
  hash_texts(&saving->header, saving->texts_hash);
  status = delta_safetensors_writer_commit(&writer, &saving->header);
cleanup:
  delta_safetensors_writer_close(&writer);
  delta_release(saving->session->allocator, saving->piece);
  return status;
}

delta_status_t delta_session_save(delta_session_t *session, const char *path, const delta_training_position_t *position) {
  if (position->struct_size != sizeof *position)
    return delta_status_make(INVALID_ARGUMENT, "training position: set struct_size to sizeof(delta_training_position_t)");
  DELTA_RETURN_IF_ERROR(delta_session_check_output(session, path));
  DELTA_RETURN_IF_ERROR(delta_session_check_trained(session));
  saving_t saving = {.session = session};
  delta_region_init(&saving.region, session->allocator);
  delta_status_t status = delta_status_annotate(save(&saving, path, position), "checkpoint");
  delta_region_deinit(&saving.region);
  return status;
}

// --- restoring ---------------------------------------------------------------------------------------------------------------------------------

// The text that every checkpoint has under `key`.
static delta_status_t need_text(const delta_safetensors_t *file, const char *key, const char **out_value) {
  *out_value = delta_safetensors_text(file, key);
  return *out_value ? DELTA_OK : delta_status_make(MALFORMED, "its metadata has no '%s': it is not a checkpoint of Delta", key);
}

static delta_status_t need_integer(const delta_safetensors_t *file, const char *key, int64_t minimum, int64_t *out_value) {
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(need_text(file, key, &text));
  char *end = NULL;
  errno = 0;
  *out_value = strtoll(text, &end, 10);
  if (errno || end == text || *end || *out_value < minimum)
    return delta_status_make(MALFORMED, "its '%s' is '%s'; wanted an integer from %" PRId64 " on", key, text, minimum);
  return DELTA_OK;
}

static delta_status_t read_position(const delta_safetensors_t *file, delta_training_position_t *out_position) {
  *out_position = (delta_training_position_t){.struct_size = sizeof *out_position};
#define READ_NUMBER(member, minimum) DELTA_RETURN_IF_ERROR(need_integer(file, #member, minimum, &out_position->member));
  POSITION_NUMBERS(READ_NUMBER)
#undef READ_NUMBER
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(need_text(file, "seed", &text));
  out_position->seed = strtoull(text, NULL, 10);
  DELTA_RETURN_IF_ERROR(need_text(file, "shuffle", &text));
  out_position->shuffle = strcmp(text, "true") == 0;
  DELTA_RETURN_IF_ERROR(need_text(file, "schedule", &text));
  snprintf(out_position->schedule, sizeof out_position->schedule, "%s", text);
  return DELTA_OK;
}

// What must be as it was, and what only changes the last bits.
static delta_status_t check_head(const delta_session_t *session, const delta_safetensors_t *file) {
  const delta_plan_t *plan = session->plan;
  const char *text = NULL, *optimizer = delta_optimizer_names.names[plan->build.optimizer.kind];
  DELTA_RETURN_IF_ERROR(need_text(file, "format", &text));
  if (strcmp(text, format_name) != 0) return delta_status_make(MALFORMED, "its format is '%s'; wanted '%s'", text, format_name);
  int64_t version = 0;
  DELTA_RETURN_IF_ERROR(need_integer(file, "version", 1, &version));
  if (version != CHECKPOINT_VERSION)
    return delta_status_make(UNSUPPORTED, "its version is %" PRId64 "; this program reads version %d", version, CHECKPOINT_VERSION);
  char hash[DELTA_SHA256_TEXT_BYTES];
  hash_texts(&file->header, hash);
  DELTA_RETURN_IF_ERROR(need_text(file, texts_hash_key, &text));
  if (strcmp(text, hash) != 0) return delta_status_make(MALFORMED, "its metadata is damaged: the checksum does not agree");
  DELTA_RETURN_IF_ERROR(need_text(file, "model_sha256", &text));
  if (strcmp(text, plan->model_sha256) != 0)
    return delta_status_make(MISMATCH, "it was trained from another model than the plan's '%s' (another SHA-256)", plan->model_file);
  DELTA_RETURN_IF_ERROR(need_text(file, "optimizer", &text));
  if (strcmp(text, optimizer) != 0) return delta_status_make(MISMATCH, "its optimizer is %s, the plan's %s", text, optimizer);
  DELTA_RETURN_IF_ERROR(need_text(file, "numerics_id", &text));
  if (strcmp(text, plan->numerics.id) != 0) {
    delta_log(session->options.log, DELTA_LOG_WARNING,
              "the checkpoint was made with numerics %s, the plan has %s: training goes on, but not to the last bit as it would have", text,
              plan->numerics.id);
  }
  return DELTA_OK;
}

// The kind and the hash in a tensor's text.
static delta_status_t find_hash(const delta_safetensors_t *file, delta_region_t *region, const char *name, delta_state_kind_t kind,
                                const char **out_hash) {
  char *key = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(region, &key, "%s%s", tensor_prefix, name));
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(need_text(file, key, &text));
  const size_t kind_bytes = strcspn(text, " ");
  if (kind_bytes != strlen(delta_state_kind_names.names[kind]) || strncmp(text, delta_state_kind_names.names[kind], kind_bytes) != 0) {
    return delta_status_make(MISMATCH, "tensor '%s' is of kind %.*s there and %s in the plan (--train and --freeze say what trains)", name,
                             (int)kind_bytes, text, delta_state_kind_names.names[kind]);
  }
  *out_hash = text + kind_bytes + (text[kind_bytes] != 0);
  return DELTA_OK;
}

static delta_status_t check_values(const delta_safetensors_t *file, const delta_safetensors_tensor_t *tensor, const char *wanted_hash,
                                   void *piece) {
  delta_sha256_t hash;
  char text[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_init(&hash);
  for (uint64_t done = 0; done < tensor->size_bytes; done += PIECE_BYTES) {
    const size_t part_bytes = tensor->size_bytes - done < PIECE_BYTES ? (size_t)(tensor->size_bytes - done) : PIECE_BYTES;
    DELTA_RETURN_IF_ERROR(delta_file_read(&file->file, tensor->offset_bytes + done, piece, part_bytes));
    delta_sha256_update(&hash, piece, part_bytes);
  }
  delta_sha256_final_text(&hash, text);
  if (strcmp(text, wanted_hash) == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "tensor '%s' is damaged: the checksum of its values does not agree", tensor->name);
}

// The tensor of a state; NULL for sums over micro-steps that the file has not, which begin at zero.
static delta_status_t match_state(const delta_safetensors_t *file, const delta_plan_state_t *state,
                                  const delta_safetensors_tensor_t **out_tensor) {
  *out_tensor = delta_safetensors_find(file, state->name);
  if (!*out_tensor && state->kind == DELTA_STATE_ACCUMULATOR) return DELTA_OK;
  if (!*out_tensor)
    return delta_status_make(MISMATCH, "it has no tensor '%s', which the plan has (%s)", state->name,
                             delta_state_kind_names.names[state->kind]);
  char shapes[2][DELTA_SHAPE_TEXT_BYTES];
  if ((*out_tensor)->dtype == state->dtype && delta_shape_equal(&(*out_tensor)->shape, &state->shape)) return DELTA_OK;
  return delta_status_make(MISMATCH, "tensor '%s' is %s %s there and %s %s in the plan", state->name,
                           delta_dtype_name((*out_tensor)->dtype), delta_shape_text(&(*out_tensor)->shape, shapes[0]),
                           delta_dtype_name(state->dtype), delta_shape_text(&state->shape, shapes[1]));
}

static delta_status_t check_tensors(delta_session_t *session, const delta_safetensors_t *file, delta_region_t *region, void *piece) {
  const delta_plan_t *plan = session->plan;
  uint32_t used = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_safetensors_tensor_t *tensor = NULL;
    const char *hash = NULL;
    DELTA_RETURN_IF_ERROR(match_state(file, &plan->states[i], &tensor));
    if (!tensor) continue;
    ++used;
    DELTA_RETURN_IF_ERROR(find_hash(file, region, tensor->name, plan->states[i].kind, &hash));
    DELTA_RETURN_IF_ERROR(check_values(file, tensor, hash, piece));
  }
  for (uint32_t t = 0; t < file->header.tensor_count && used < file->header.tensor_count; ++t) {
    const char *name = file->header.tensors[t].name;
    const char *hash = NULL;
    bool is_known = false;
    for (uint32_t i = 0; i < plan->state_count && !is_known; ++i) is_known = strcmp(plan->states[i].name, name) == 0;
    if (is_known) continue;
    // Between two updates sums over micro-steps are zero: a plan without them loses nothing.
    delta_status_t status = find_hash(file, region, name, DELTA_STATE_ACCUMULATOR, &hash);
    if (!status) continue;
    delta_status_free(status);
    return delta_status_make(MISMATCH, "it has a tensor '%s', which the plan has not", name);
  }
  return DELTA_OK;
}

static delta_status_t load_state(delta_session_t *session, const delta_safetensors_t *file, uint32_t index, void *piece) {
  const delta_plan_state_t *state = &session->plan->states[index];
  const delta_safetensors_tensor_t *tensor = delta_safetensors_find(file, state->name);
  const size_t size_bytes = delta_plan_state_content_bytes(state);
  if (!tensor) memset(piece, 0, PIECE_BYTES);
  for (size_t done = 0; done < size_bytes; done += PIECE_BYTES) {
    const size_t part_bytes = size_bytes - done < PIECE_BYTES ? size_bytes - done : PIECE_BYTES;
    if (tensor) DELTA_RETURN_IF_ERROR(delta_file_read(&file->file, tensor->offset_bytes + done, piece, part_bytes));
    DELTA_RETURN_IF_ERROR(delta_session_write_piece(session, index, done, piece, part_bytes));
  }
  return DELTA_OK;
}

// Those of the file, beside or in place of those that there are.
static delta_status_t load_properties(delta_session_t *session, const delta_safetensors_t *file) {
  const size_t prefix_bytes = sizeof property_prefix - 1;
  for (uint32_t i = 0; i < file->header.text_count; ++i) {
    const delta_safetensors_text_t *text = &file->header.texts[i];
    if (strncmp(text->key, property_prefix, prefix_bytes) != 0 || !text->key[prefix_bytes]) continue;
    DELTA_RETURN_IF_ERROR(delta_session_set_property(session, text->key + prefix_bytes, text->value));
  }
  return DELTA_OK;
}

static delta_status_t restore(delta_session_t *session, const delta_safetensors_t *file, delta_training_position_t *out_position) {
  delta_region_t region;
  void *piece = NULL;
  delta_training_position_t position;
  delta_region_init(&region, session->allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, check_head(session, file), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_position(file, &position), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_allocate(session->allocator, PIECE_BYTES, 1, &piece), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_tensors(session, file, &region, piece), cleanup);
  DELTA_GOTO_IF_ERROR(status, load_properties(session, file), cleanup);
  for (uint32_t i = 0; i < session->plan->state_count; ++i) DELTA_GOTO_IF_ERROR(status, load_state(session, file, i, piece), cleanup);
  *out_position = position;
cleanup:
  delta_release(session->allocator, piece);
  delta_region_deinit(&region);
  return status;
}

delta_status_t delta_session_restore(delta_session_t *session, const char *path, delta_training_position_t *out_position) {
  if (out_position->struct_size != sizeof *out_position)
    return delta_status_make(INVALID_ARGUMENT, "training position: set struct_size to sizeof(delta_training_position_t)");
  delta_safetensors_t file;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_safetensors_open(path, session->allocator, &file), "checkpoint"));
  delta_status_t status = delta_status_annotate(restore(session, &file, out_position), "checkpoint '%s'", path);
  delta_safetensors_close(&file);
  return status;
}

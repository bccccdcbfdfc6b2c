// Exports a model: walks the loaded file on the wire level, collects what changes as edits, and writes file and edits in one pass.
#include "onnx/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "onnx/edits.h"
#include "onnx/export_external.h"
#include "onnx/file_hash.h"
#include "onnx/inference_form.h"

// Field numbers of onnx.proto.
enum {
  MODEL_GRAPH = 7,
  MODEL_FUNCTION = 25,
  GRAPH_NODE = 1,
  GRAPH_INITIALIZER = 5,
  FUNCTION_NODE = 7,
  FUNCTION_OPSET = 9,
  NODE_ATTRIBUTE = 5,
  ATTRIBUTE_TENSOR = 5,
  TENSOR_FLOAT_DATA = 4,
  TENSOR_INT32_DATA = 5,
  TENSOR_INT64_DATA = 7,
  TENSOR_RAW_DATA = 9,
  TENSOR_DOUBLE_DATA = 10,
  TENSOR_UINT64_DATA = 11,
  TENSOR_EXTERNAL_DATA = 13,
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2,
  OPSET_DOMAIN = 1,
  OPSET_VERSION = 2,
};

enum { NUMBER_BYTES = 32 }; // room for a decimal number

typedef struct exporter {
  const delta_model_t *model;            // Borrowed.
  const delta_export_options_t *options; // Borrowed.
  delta_wire_source_t *source;           // Borrowed; the loaded file.
  delta_edits_t edits;                   // Owned.
  delta_export_external_t external;      // Owned.
  delta_inference_scope_t *scope;        // Borrowed; of the nodes being walked. NULL when nodes keep their form.
  uint32_t initializer_count;            // met so far
} exporter_t;

// Edits one field of a message; adds to *growth how many bytes the message grows.
typedef delta_status_t (*field_visitor_t)(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth);

static delta_status_t visit_fields(exporter_t *exporter, delta_wire_range_t message, field_visitor_t visitor, int64_t *growth) {
  for (uint64_t position = message.begin; position < message.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, message.end, &field));
    DELTA_RETURN_IF_ERROR(visitor(exporter, &field, growth));
  }
  return DELTA_OK;
}

// Visits the fields of the message in `field` and sets its length.
static delta_status_t visit_message(exporter_t *exporter, const delta_wire_field_t *field, field_visitor_t visitor, int64_t *growth) {
  int64_t inner_growth = 0;
  DELTA_RETURN_IF_ERROR(visit_fields(exporter, field->payload, visitor, &inner_growth));
  return delta_edits_resize(&exporter->edits, field, inner_growth, growth);
}

static bool is_message(const delta_wire_field_t *field, uint32_t number) {
  return field->number == number && field->type == DELTA_WIRE_LENGTH;
}

// Whether a text field holds `text`.
static delta_status_t holds_text(exporter_t *exporter, const delta_wire_field_t *field, const char *text, bool *out_holds) {
  char buffer[64];
  size_t length = strlen(text);
  *out_holds = length < sizeof buffer && delta_wire_range_bytes(field->payload) == length;
  if (!*out_holds) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_wire_read(exporter->source, field->payload, buffer));
  *out_holds = memcmp(buffer, text, length) == 0;
  return DELTA_OK;
}

// -- External data -----------------------------------------------------------------------------------------------------------------------

// The key and value fields of an external_data entry.
typedef struct entry_view {
  bool is_location, is_offset, is_length, is_checksum;
  delta_wire_field_t value;
} entry_view_t;

static delta_status_t view_entry(exporter_t *exporter, delta_wire_range_t entry, entry_view_t *out_view) {
  entry_view_t view = {0};
  for (uint64_t position = entry.begin; position < entry.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, entry.end, &field));
    if (is_message(&field, ENTRY_VALUE)) view.value = field;
    if (!is_message(&field, ENTRY_KEY)) continue;
    DELTA_RETURN_IF_ERROR(holds_text(exporter, &field, "location", &view.is_location));
    DELTA_RETURN_IF_ERROR(holds_text(exporter, &field, "offset", &view.is_offset));
    DELTA_RETURN_IF_ERROR(holds_text(exporter, &field, "length", &view.is_length));
    DELTA_RETURN_IF_ERROR(holds_text(exporter, &field, "checksum", &view.is_checksum));
  }
  *out_view = view;
  return DELTA_OK;
}

static delta_status_t read_value_text(exporter_t *exporter, const entry_view_t *view, char **out_text) {
  size_t length = (size_t)delta_wire_range_bytes(view->value.payload);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&exporter->edits.region, length + 1, out_text));
  return delta_wire_read(exporter->source, view->value.payload, *out_text);
}

// The new location for an old one.
static const char *new_location(const exporter_t *exporter, const char *old) {
  for (uint32_t i = 0; i < exporter->model->external_count; ++i) {
    if (strcmp(exporter->model->external_files[i].location, old) == 0) return exporter->external.files[i].location;
  }
  return NULL;
}

static delta_status_t replace_entry_value(exporter_t *exporter, const delta_wire_field_t *entry, const entry_view_t *view, const char *text,
                                          int64_t *growth) {
  int64_t inner_growth = 0;
  delta_wire_range_t range = {view->value.begin, view->value.end};
  DELTA_RETURN_IF_ERROR(delta_edits_replace_field(&exporter->edits, range, ENTRY_VALUE, text, strlen(text), &inner_growth));
  return delta_edits_resize(&exporter->edits, entry, inner_growth, growth);
}

// Adds an external_data entry at the end of a tensor.
static delta_status_t insert_entry(exporter_t *exporter, uint64_t place, const char *key, uint64_t value, int64_t *growth) {
  char number[NUMBER_BYTES];
  uint8_t entry[2 * NUMBER_BYTES];
  snprintf(number, sizeof number, "%" PRIu64, value);
  size_t count = 0;
  const char *texts[] = {key, number};
  for (uint32_t i = 0; i < 2; ++i) {
    size_t length = strlen(texts[i]);
    entry[count++] = (uint8_t)((ENTRY_KEY + i) << 3 | DELTA_WIRE_LENGTH);
    entry[count++] = (uint8_t)length;
    memcpy(entry + count, texts[i], length);
    count += length;
  }
  return delta_edits_replace_field(&exporter->edits, (delta_wire_range_t){place, place}, TENSOR_EXTERNAL_DATA, entry, count, growth);
}

// Points an external tensor to the new data file. `place` is NULL for an attribute: its offset stays. Readers take a missing length as the rest
// of the file, which may have grown, so an initializer always gets one.
static delta_status_t edit_external(exporter_t *exporter, delta_wire_range_t range, const delta_export_place_t *place,
                                    const delta_model_tensor_t *tensor, int64_t *growth) {
  bool moves = place && place->offset_bytes != tensor->offset_bytes, has_offset = false, has_length = false;
  char offset[NUMBER_BYTES];
  snprintf(offset, sizeof offset, "%" PRIu64, moves ? place->offset_bytes : 0);
  for (uint64_t position = range.begin; position < range.end;) {
    delta_wire_field_t field = {0};
    entry_view_t view = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, range.end, &field));
    if (!is_message(&field, TENSOR_EXTERNAL_DATA)) continue;
    DELTA_RETURN_IF_ERROR(view_entry(exporter, field.payload, &view));
    has_length |= view.is_length;
    has_offset |= view.is_offset;
    if (view.is_checksum && place && place->is_replaced) {
      DELTA_RETURN_IF_ERROR(delta_edits_replace(&exporter->edits, (delta_wire_range_t){field.begin, field.end}, NULL, 0, growth));
    } else if (view.is_location) {
      char *old = NULL;
      DELTA_RETURN_IF_ERROR(read_value_text(exporter, &view, &old));
      const char *location = new_location(exporter, old);
      if (location) DELTA_RETURN_IF_ERROR(replace_entry_value(exporter, &field, &view, location, growth));
    } else if (view.is_offset && moves) {
      DELTA_RETURN_IF_ERROR(replace_entry_value(exporter, &field, &view, offset, growth));
    }
  }
  if (moves && !has_offset) DELTA_RETURN_IF_ERROR(insert_entry(exporter, range.end, "offset", place->offset_bytes, growth));
  if (place && !has_length) DELTA_RETURN_IF_ERROR(insert_entry(exporter, range.end, "length", tensor->size_bytes, growth));
  return DELTA_OK;
}

// -- Initializers ------------------------------------------------------------------------------------------------------------------------

static bool is_data_field(uint32_t number) {
  return number == TENSOR_RAW_DATA || number == TENSOR_FLOAT_DATA || number == TENSOR_DOUBLE_DATA || number == TENSOR_INT32_DATA ||
         number == TENSOR_INT64_DATA || number == TENSOR_UINT64_DATA;
}

// The one field whose bytes are the tensor's elements as they are in memory; *out_found is false when the elements are stored otherwise.
static delta_status_t find_plain_data(exporter_t *exporter, delta_wire_range_t range, const delta_model_tensor_t *tensor,
                                      delta_wire_field_t *out_field, bool *out_found) {
  uint32_t fields = 0;
  for (uint64_t position = range.begin; position < range.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, range.end, &field));
    if (!is_data_field(field.number)) continue;
    ++fields;
    *out_field = field;
  }
  bool is_plain = out_field->number == TENSOR_RAW_DATA || out_field->number == TENSOR_FLOAT_DATA || out_field->number == TENSOR_DOUBLE_DATA;
  *out_found =
      fields == 1 && is_plain && out_field->type == DELTA_WIRE_LENGTH && delta_wire_range_bytes(out_field->payload) == tensor->size_bytes;
  return DELTA_OK;
}

// Elements stored one by one (variable length, or not packed) become raw_data when they get a new value.
static delta_status_t edit_typed_data(exporter_t *exporter, delta_wire_range_t range, uint32_t index, int64_t *growth) {
  const delta_model_tensor_t *tensor = &exporter->model->initializers[index];
  for (uint64_t position = range.begin; position < range.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, range.end, &field));
    if (!is_data_field(field.number)) continue;
    DELTA_RETURN_IF_ERROR(delta_edits_replace(&exporter->edits, (delta_wire_range_t){field.begin, field.end}, NULL, 0, growth));
  }
  uint8_t head[1 + DELTA_WIRE_VARINT_BYTES] = {TENSOR_RAW_DATA << 3 | DELTA_WIRE_LENGTH};
  size_t head_bytes = 1 + delta_wire_encode_varint(tensor->size_bytes, head + 1);
  delta_wire_range_t end = {range.end, range.end};
  DELTA_RETURN_IF_ERROR(delta_edits_replace(&exporter->edits, end, head, head_bytes, growth));
  return delta_edits_replace_tensor(&exporter->edits, end, index, tensor->size_bytes, growth);
}

static delta_status_t edit_tensor_content(exporter_t *exporter, delta_wire_range_t range, uint32_t index, int64_t *growth) {
  const delta_model_tensor_t *tensor = &exporter->model->initializers[index];
  if (tensor->storage == DELTA_STORAGE_EXTERNAL) return edit_external(exporter, range, &exporter->external.places[index], tensor, growth);
  if (tensor->size_bytes == 0) return DELTA_OK;
  const void *value = NULL;
  DELTA_RETURN_IF_ERROR(exporter->options->find_value(exporter->options->self, tensor->name, tensor->size_bytes, &value));
  if (!value) return DELTA_OK;
  delta_wire_field_t data = {0};
  bool is_plain = false;
  DELTA_RETURN_IF_ERROR(find_plain_data(exporter, range, tensor, &data, &is_plain));
  if (is_plain) return delta_edits_replace_tensor(&exporter->edits, data.payload, index, tensor->size_bytes, growth);
  return edit_typed_data(exporter, range, index, growth);
}

static delta_status_t edit_initializer(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  uint32_t index = exporter->initializer_count++;
  int64_t inner_growth = 0;
  if (index >= exporter->model->initializer_count) return delta_status_make(INTERNAL, "the file has more initializers than the model");
  DELTA_RETURN_IF_ERROR(edit_tensor_content(exporter, field->payload, index, &inner_growth));
  return delta_edits_resize(&exporter->edits, field, inner_growth, growth);
}

// -- Nodes -------------------------------------------------------------------------------------------------------------------------------

static delta_status_t edit_attribute_field(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  if (!is_message(field, ATTRIBUTE_TENSOR)) return DELTA_OK;
  int64_t inner_growth = 0;
  DELTA_RETURN_IF_ERROR(edit_external(exporter, field->payload, NULL, NULL, &inner_growth));
  return delta_edits_resize(&exporter->edits, field, inner_growth, growth);
}

static delta_status_t edit_node_field(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  return is_message(field, NODE_ATTRIBUTE) ? visit_message(exporter, field, edit_attribute_field, growth) : DELTA_OK;
}

static delta_status_t edit_node(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  int64_t inner_growth = 0;
  bool drops = false;
  if (exporter->scope) DELTA_RETURN_IF_ERROR(delta_inference_form_drops(exporter->scope, field, &drops));
  if (drops) return delta_edits_replace(&exporter->edits, (delta_wire_range_t){field->begin, field->end}, NULL, 0, growth);
  if (exporter->model->external_count > 0) DELTA_RETURN_IF_ERROR(visit_fields(exporter, field->payload, edit_node_field, &inner_growth));
  if (exporter->scope) DELTA_RETURN_IF_ERROR(delta_inference_form_node(exporter->scope, field, &inner_growth, growth));
  return delta_edits_resize(&exporter->edits, field, inner_growth, growth);
}

static delta_status_t edit_graph_field(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  if (is_message(field, GRAPH_INITIALIZER)) return edit_initializer(exporter, field, growth);
  return is_message(field, GRAPH_NODE) ? edit_node(exporter, field, growth) : DELTA_OK;
}

static delta_status_t edit_function_field(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  return is_message(field, FUNCTION_NODE) ? edit_node(exporter, field, growth) : DELTA_OK;
}

// The version of the default domain that a function imports; 0 for none.
static delta_status_t function_opset(exporter_t *exporter, delta_wire_range_t function, int64_t *out_opset) {
  *out_opset = 0;
  for (uint64_t position = function.begin; position < function.end;) {
    delta_wire_field_t import = {0}, field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &position, function.end, &import));
    if (!is_message(&import, FUNCTION_OPSET)) continue;
    bool is_default = true;
    int64_t version = 0;
    for (uint64_t inner = import.payload.begin; inner < import.payload.end;) {
      DELTA_RETURN_IF_ERROR(delta_wire_next(exporter->source, &inner, import.payload.end, &field));
      if (field.number == OPSET_VERSION && field.type == DELTA_WIRE_VARINT) version = (int64_t)field.varint;
      if (!is_message(&field, OPSET_DOMAIN)) continue;
      DELTA_RETURN_IF_ERROR(holds_text(exporter, &field, "ai.onnx", &is_default));
      is_default |= delta_wire_range_bytes(field.payload) == 0;
    }
    if (is_default) *out_opset = version;
  }
  return DELTA_OK;
}

// Edits a graph or a function with the scope its nodes need.
static delta_status_t edit_scope(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  bool is_function = field->number == MODEL_FUNCTION;
  field_visitor_t visitor = is_function ? edit_function_field : edit_graph_field;
  if (exporter->options->for_training) return visit_message(exporter, field, visitor, growth);
  delta_inference_scope_t scope = {0};
  int64_t opset = exporter->model->opset;
  if (is_function) DELTA_RETURN_IF_ERROR(function_opset(exporter, field->payload, &opset));
  DELTA_RETURN_IF_ERROR(
      delta_inference_scope_init(&scope, &exporter->edits, field->payload, is_function, opset, exporter->model->allocator));
  exporter->scope = &scope;
  delta_status_t status = visit_message(exporter, field, visitor, growth);
  exporter->scope = NULL;
  delta_inference_scope_deinit(&scope);
  return status;
}

static delta_status_t edit_model_field(exporter_t *exporter, const delta_wire_field_t *field, int64_t *growth) {
  return is_message(field, MODEL_GRAPH) || is_message(field, MODEL_FUNCTION) ? edit_scope(exporter, field, growth) : DELTA_OK;
}

// -- Writing -----------------------------------------------------------------------------------------------------------------------------

static delta_status_t give_elements(void *self, uint32_t index, const void **out_elements) {
  const exporter_t *exporter = self;
  const delta_model_tensor_t *tensor = &exporter->model->initializers[index];
  DELTA_RETURN_IF_ERROR(exporter->options->find_value(exporter->options->self, tensor->name, tensor->size_bytes, out_elements));
  return *out_elements ? DELTA_OK : delta_status_make(INTERNAL, "initializer '%s' has no new value any more", tensor->name);
}

static delta_status_t write_model(exporter_t *exporter) {
  delta_file_writer_t writer = {.descriptor = -1};
  delta_edit_tensors_t tensors = {.self = exporter, .elements = give_elements};
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_file_writer_open(exporter->options->path, exporter->model->allocator, &writer));
  DELTA_GOTO_IF_ERROR(status, delta_edits_write(&exporter->edits, &tensors, &writer), cleanup);
  // The data first: a model without its data would be worse than data without its model.
  DELTA_GOTO_IF_ERROR(status, delta_export_external_commit(&exporter->external), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_commit(&writer), cleanup);

cleanup:
  delta_file_writer_close(&writer);
  return status;
}

// Offsets from loading are only good for the same bytes.
static delta_status_t check_unchanged(const delta_model_t *model, const delta_file_t *file) {
  char hash[DELTA_SHA256_TEXT_BYTES];
  DELTA_RETURN_IF_ERROR(delta_file_hash(file, model->allocator, hash));
  if (strcmp(hash, model->sha256) == 0) return DELTA_OK;
  return delta_status_make(MISMATCH, "'%s' has changed since it was loaded; it cannot be exported with new values", model->path);
}

static delta_status_t export_from(exporter_t *exporter, const delta_file_t *file) {
  int64_t growth = 0;
  DELTA_RETURN_IF_ERROR(check_unchanged(exporter->model, file));
  DELTA_RETURN_IF_ERROR(delta_export_external_write(exporter->model, exporter->options, &exporter->external));
  DELTA_RETURN_IF_ERROR(visit_fields(exporter, (delta_wire_range_t){0, file->size_bytes}, edit_model_field, &growth));
  return write_model(exporter);
}

delta_status_t delta_model_export(const delta_model_t *model, const delta_export_options_t *options) {
  delta_file_t file = {.descriptor = -1};
  delta_wire_source_t source = {0};
  exporter_t exporter = {.model = model, .options = options, .source = &source};
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_model_check_output(model, options->path));
  DELTA_RETURN_IF_ERROR(delta_file_open(model->path, model->allocator, &file));
  delta_edits_init(&exporter.edits, model->allocator, &source);
  DELTA_GOTO_IF_ERROR(status, delta_wire_source_init(&source, &file, model->allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, export_from(&exporter, &file), cleanup);

cleanup:
  delta_export_external_deinit(&exporter.external);
  delta_edits_deinit(&exporter.edits);
  delta_wire_source_deinit(&source);
  delta_file_close(&file);
  return status;
}

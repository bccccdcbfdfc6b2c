// Messages are copied field by field; those on the way to a dimension are written anew, since their lengths change.
#include "tests/support/free_dims.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/model_file.h"

// The way from a model to the dimensions of its values: fields of onnx.proto. Level 1 is an input or an output of the graph.
enum { LEVELS = 6, DIM_LEVEL = LEVELS - 1, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, DIM_VALUE = 1, DIM_NAME = 2 };
static const uint32_t way[LEVELS] = {7, GRAPH_INPUT, 2, 1, 2, 1};

typedef struct span {
  const uint8_t *at, *end;
} span_t;

static uint64_t read_varint(span_t *span) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    cr_assert(span->at < span->end);
    const uint8_t byte = *span->at++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) break;
  }
  return value;
}

static bool is_on_way(int level, uint32_t field) {
  return level < LEVELS && (field == way[level] || (level == 1 && field == GRAPH_OUTPUT));
}

// The content of dimension number `index`.
static delta_test_message_t name_dimension(span_t content, int index, int size) {
  delta_test_message_t message = {0};
  span_t span = content;
  char name[16];
  snprintf(name, sizeof name, "dim%d", index);
  const bool has_size = span.at < span.end && read_varint(&span) == (DIM_VALUE << 3) && read_varint(&span) == (uint64_t)size;
  if (has_size && index > 0) {
    delta_test_put_text(&message, DIM_NAME, name);
  } else {
    delta_test_put_raw(&message, content.at, (size_t)(content.end - content.at));
  }
  return message;
}

static delta_test_message_t rewrite(span_t span, int level, int size) {
  delta_test_message_t message = {0};
  int dims = 0;
  while (span.at < span.end) {
    const uint8_t *begin = span.at;
    const uint64_t tag = read_varint(&span);
    const uint32_t field = (uint32_t)(tag >> 3), type = tag & 7;
    cr_assert(type == 0 || type == 2 || type == 5 || type == 1, "wire type %u", type);
    if (type == 0) {
      read_varint(&span);
    } else if (type != 2) {
      span.at += type == 1 ? 8 : 4;
    } else {
      const uint64_t length = read_varint(&span);
      const span_t inner = {span.at, span.at + length};
      span.at = inner.end;
      if (is_on_way(level, field)) {
        delta_test_message_t content = level == DIM_LEVEL ? name_dimension(inner, dims++, size) : rewrite(inner, level + 1, size);
        delta_test_put_message(&message, field, &content);
        continue;
      }
    }
    delta_test_put_raw(&message, begin, (size_t)(span.at - begin));
  }
  return message;
}

void delta_test_free_dims(const char *from, int size, const char *to) {
  FILE *file = fopen(from, "rb");
  cr_assert_not_null(file, "%s", from);
  fseek(file, 0, SEEK_END);
  const size_t size_bytes = (size_t)ftell(file);
  uint8_t *bytes = malloc(size_bytes + 1);
  rewind(file);
  cr_assert(bytes && fread(bytes, 1, size_bytes, file) == size_bytes);
  fclose(file);
  delta_test_message_t message = rewrite((span_t){bytes, bytes + size_bytes}, 0, size);
  file = fopen(to, "wb");
  cr_assert(file && fwrite(message.bytes, 1, message.count, file) == message.count && fclose(file) == 0, "%s", to);
  delta_test_message_free(&message);
  free(bytes);
}

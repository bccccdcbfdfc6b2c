// Writes an ONNX model of a known network without weights, for planning and for measuring: make_model resnet50|bert_base OUT.onnx
//
// Weights are said to lie in a file that is not there; `deltaplan OUT.onnx --init random ...` draws them. Convolutions, normalisations and the classifier of resnet50 are those of the
// paper with the stride in the 3x3 convolutions (224 x 224 images, 1000 classes); bert_base has 12 layers of 768, 12 heads, sequences of 128 and 2 classes.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, BOOL = 9, NAME_BYTES = 96 };

// ---- Messages of the file's format: growing bytes, written from the inside out.

typedef struct message {
  uint8_t *bytes;
  size_t size, capacity;
} message_t;

static void add_bytes(message_t *message, const void *bytes, size_t size) {
  if (message->size + size > message->capacity) {
    message->capacity = 2 * (message->size + size);
    message->bytes = realloc(message->bytes, message->capacity);
    if (!message->bytes) {
      fprintf(stderr, "make_model: out of memory\n");
      exit(1);
    }
  }
  if (size > 0) memcpy(message->bytes + message->size, bytes, size);
  message->size += size;
}

static void add_varint(message_t *message, uint64_t value) {
  uint8_t bytes[10];
  size_t size = 0;
  do {
    bytes[size] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (bytes[size++] & 0x80);
  add_bytes(message, bytes, size);
}

static void add_int(message_t *message, uint32_t field, int64_t value) {
  add_varint(message, (uint64_t)field << 3);
  add_varint(message, (uint64_t)value);
}

static void add_float(message_t *message, uint32_t field, float value) {
  add_varint(message, (uint64_t)field << 3 | 5);
  add_bytes(message, &value, sizeof value);
}

static void add_block(message_t *message, uint32_t field, const void *bytes, size_t size) {
  add_varint(message, (uint64_t)field << 3 | 2);
  add_varint(message, size);
  add_bytes(message, bytes, size);
}

static void add_text(message_t *message, uint32_t field, const char *text) { add_block(message, field, text, strlen(text)); }

// Adds an inner message, and frees it.
static void add_message(message_t *message, uint32_t field, message_t *inner) {
  add_block(message, field, inner->bytes, inner->size);
  free(inner->bytes);
  *inner = (message_t){0};
}

// ---- Graphs

typedef struct graph {
  message_t nodes, initializers, ends; // as fields of the graph
  int64_t weights_offset;
  int node_count;
  char last[NAME_BYTES]; // output of the node added last
} graph_t;

// Attributes of the node that is added next.
typedef struct attributes {
  message_t fields;
} attributes_t;

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };

static void attribute_int(attributes_t *attributes, const char *name, int64_t value) {
  message_t attribute = {0};
  add_text(&attribute, 1, name);
  add_int(&attribute, 3, value);
  add_int(&attribute, 20, ATTRIBUTE_INT);
  add_message(&attributes->fields, 5, &attribute);
}

static void attribute_float(attributes_t *attributes, const char *name, float value) {
  message_t attribute = {0};
  add_text(&attribute, 1, name);
  add_float(&attribute, 2, value);
  add_int(&attribute, 20, ATTRIBUTE_FLOAT);
  add_message(&attributes->fields, 5, &attribute);
}

static void attribute_ints(attributes_t *attributes, const char *name, const int64_t *values, int count) {
  message_t attribute = {0};
  add_text(&attribute, 1, name);
  for (int i = 0; i < count; ++i) add_int(&attribute, 8, values[i]);
  add_int(&attribute, 20, ATTRIBUTE_INTS);
  add_message(&attributes->fields, 5, &attribute);
}

// Adds a node with one output, which is called like the node; `inputs` ends with NULL. Consumes the attributes. Returns the name, until the next node is added.
static const char *add_node(graph_t *graph, const char *op, attributes_t *attributes, const char *const *inputs) {
  message_t node = {0};
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s_%d", op, graph->node_count++);
  for (; *inputs; ++inputs) add_text(&node, 1, *inputs);
  add_text(&node, 2, name);
  add_text(&node, 3, name);
  add_text(&node, 4, op);
  if (attributes) {
    add_bytes(&node, attributes->fields.bytes, attributes->fields.size);
    free(attributes->fields.bytes);
    attributes->fields = (message_t){0};
  }
  add_message(&graph->nodes, 1, &node);
  memcpy(graph->last, name, sizeof name);
  return graph->last;
}

#define NODE(graph, op, attributes, ...) add_node(graph, op, attributes, (const char *const[]){__VA_ARGS__, NULL})

static void add_entry(message_t *tensor, const char *key, const char *value) {
  message_t entry = {0};
  add_text(&entry, 1, key);
  add_text(&entry, 2, value);
  add_message(tensor, 13, &entry);
}

// A weight in the file that is not there. Returns its name, in `name`.
static const char *add_weight(graph_t *graph, char name[NAME_BYTES], const char *prefix, const char *suffix, const int64_t *dims,
                              int rank) {
  message_t tensor = {0};
  char number[32];
  int64_t count = 1;
  snprintf(name, NAME_BYTES, "%s.%s", prefix, suffix);
  for (int i = 0; i < rank; ++i) {
    add_int(&tensor, 1, dims[i]);
    count *= dims[i];
  }
  add_int(&tensor, 2, FLOAT);
  add_text(&tensor, 8, name);
  add_entry(&tensor, "location", "weights.bin");
  snprintf(number, sizeof number, "%lld", (long long)graph->weights_offset);
  add_entry(&tensor, "offset", number);
  snprintf(number, sizeof number, "%lld", (long long)(4 * count));
  add_entry(&tensor, "length", number);
  add_int(&tensor, 14, 1);
  add_message(&graph->initializers, 5, &tensor);
  graph->weights_offset += 4 * count;
  return name;
}

#define WEIGHT(graph, name, prefix, suffix, ...) \
  add_weight(graph, name, prefix, suffix, (const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

// A small constant of any type, with rank 1 or, where `rank` is 0, none.
static const char *add_constant(graph_t *graph, const char *name, int type, const void *data, size_t element_bytes, int64_t count,
                                int rank) {
  message_t tensor = {0};
  if (rank > 0) add_int(&tensor, 1, count);
  add_int(&tensor, 2, type);
  add_text(&tensor, 8, name);
  add_block(&tensor, 9, data, element_bytes * (size_t)count);
  add_message(&graph->initializers, 5, &tensor);
  return name;
}

// An input or output; the first dimension is the batch.
static void add_end(graph_t *graph, uint32_t field, const char *name, int type, const int64_t *dims, int rank) {
  message_t info = {0}, value_type = {0}, tensor_type = {0}, shape = {0};
  for (int i = 0; i <= rank; ++i) {
    message_t dim = {0};
    if (i == 0) add_text(&dim, 2, "N");
    if (i > 0) add_int(&dim, 1, dims[i - 1]);
    add_message(&shape, 1, &dim);
  }
  add_int(&tensor_type, 1, type);
  add_message(&tensor_type, 2, &shape);
  add_message(&value_type, 1, &tensor_type);
  add_text(&info, 1, name);
  add_message(&info, 2, &value_type);
  add_message(&graph->ends, field, &info);
}

enum { GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

static int write_model(graph_t *graph, const char *graph_name, const char *path) {
  message_t body = {0}, opset = {0}, model = {0};
  add_bytes(&body, graph->nodes.bytes, graph->nodes.size);
  add_text(&body, 2, graph_name);
  add_bytes(&body, graph->initializers.bytes, graph->initializers.size);
  add_bytes(&body, graph->ends.bytes, graph->ends.size);
  add_int(&model, 1, 8);
  add_text(&model, 2, "make_model");
  add_message(&model, 7, &body);
  add_int(&opset, 2, 17);
  add_message(&model, 8, &opset);
  FILE *file = fopen(path, "wb");
  int failed = !file || fwrite(model.bytes, 1, model.size, file) != model.size;
  if (file && fclose(file) != 0) failed = 1;
  if (failed) fprintf(stderr, "make_model: cannot write '%s'\n", path);
  free(model.bytes);
  free(graph->nodes.bytes);
  free(graph->initializers.bytes);
  free(graph->ends.bytes);
  return failed;
}

// ---- ResNet-50

// A convolution without bias and its normalisation.
static void add_conv(graph_t *graph, char out[NAME_BYTES], const char *input, const char *prefix, int64_t from, int64_t to, int64_t kernel,
                     int64_t stride) {
  attributes_t attributes = {0};
  char weight[NAME_BYTES], scale[NAME_BYTES], bias[NAME_BYTES], mean[NAME_BYTES], variance[NAME_BYTES], norm[NAME_BYTES + 8];
  const int64_t pad = kernel / 2, pads[] = {pad, pad, pad, pad};
  attribute_ints(&attributes, "kernel_shape", (const int64_t[]){kernel, kernel}, 2);
  attribute_ints(&attributes, "strides", (const int64_t[]){stride, stride}, 2);
  attribute_ints(&attributes, "pads", pads, 4);
  WEIGHT(graph, weight, prefix, "weight", to, from, kernel, kernel);
  const char *conv = NODE(graph, "Conv", &attributes, input, weight);
  snprintf(norm, sizeof norm, "%s.norm", prefix);
  attribute_float(&attributes, "epsilon", 1e-5f);
  snprintf(
      out, NAME_BYTES, "%s",
      NODE(graph, "BatchNormalization", &attributes, conv, WEIGHT(graph, scale, norm, "weight", to), WEIGHT(graph, bias, norm, "bias", to),
           WEIGHT(graph, mean, norm, "running_mean", to), WEIGHT(graph, variance, norm, "running_var", to)));
}

// Three convolutions and what goes past them. `inout` is input and output.
static void add_bottleneck(graph_t *graph, char inout[NAME_BYTES], const char *prefix, int64_t from, int64_t width, int64_t stride) {
  char a[NAME_BYTES], past[NAME_BYTES], part[NAME_BYTES];
  const int64_t kernels[] = {1, 3, 1}, strides[] = {1, stride, 1}, channels[] = {from, width, width, 4 * width};
  snprintf(a, sizeof a, "%s", inout);
  for (int i = 0; i < 3; ++i) {
    snprintf(part, sizeof part, "%.60s.conv%d", prefix, i + 1);
    add_conv(graph, a, a, part, channels[i], channels[i + 1], kernels[i], strides[i]);
    if (i < 2) snprintf(a, sizeof a, "%s", NODE(graph, "Relu", NULL, a));
  }
  snprintf(past, sizeof past, "%s", inout);
  snprintf(part, sizeof part, "%.60s.past", prefix);
  if (stride != 1 || from != 4 * width) add_conv(graph, past, past, part, from, 4 * width, 1, stride);
  const char *sum = NODE(graph, "Add", NULL, a, past);
  snprintf(inout, NAME_BYTES, "%s", NODE(graph, "Relu", NULL, sum));
}

static void add_resnet50(graph_t *graph) {
  static const int blocks[] = {3, 4, 6, 3};
  attributes_t attributes = {0};
  char a[NAME_BYTES], prefix[NAME_BYTES], weight[NAME_BYTES], bias[NAME_BYTES];
  int64_t from = 64;
  add_end(graph, GRAPH_INPUT, "image", FLOAT, (const int64_t[]){3, 224, 224}, 3);
  add_conv(graph, a, "image", "stem", 3, 64, 7, 2);
  snprintf(a, sizeof a, "%s", NODE(graph, "Relu", NULL, a));
  attribute_ints(&attributes, "kernel_shape", (const int64_t[]){3, 3}, 2);
  attribute_ints(&attributes, "strides", (const int64_t[]){2, 2}, 2);
  attribute_ints(&attributes, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
  snprintf(a, sizeof a, "%s", NODE(graph, "MaxPool", &attributes, a));
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = INT64_C(64) << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      snprintf(prefix, sizeof prefix, "stage%d.%d", stage + 1, block);
      add_bottleneck(graph, a, prefix, from, width, stage > 0 && block == 0 ? 2 : 1);
      from = 4 * width;
    }
  }
  const char *pooled = NODE(graph, "GlobalAveragePool", NULL, a);
  const char *flat = NODE(graph, "Flatten", NULL, pooled);
  attribute_int(&attributes, "transB", 1);
  const char *logits = NODE(graph, "Gemm", &attributes, flat, WEIGHT(graph, weight, "head", "weight", 1000, 2048),
                            WEIGHT(graph, bias, "head", "bias", 1000));
  add_end(graph, GRAPH_OUTPUT, logits, FLOAT, (const int64_t[]){1000}, 1);
}

// ---- BERT-base

enum { WIDTH = 768, HEADS = 12, TOKENS = 128, LAYERS = 12, WORDS = 30522 };

static void add_linear(graph_t *graph, char out[NAME_BYTES], const char *input, const char *prefix, int64_t from, int64_t to) {
  char weight[NAME_BYTES], bias[NAME_BYTES];
  const char *product = NODE(graph, "MatMul", NULL, input, WEIGHT(graph, weight, prefix, "weight", from, to));
  snprintf(out, NAME_BYTES, "%s", NODE(graph, "Add", NULL, product, WEIGHT(graph, bias, prefix, "bias", to)));
}

static void add_norm(graph_t *graph, char out[NAME_BYTES], const char *input, const char *prefix) {
  attributes_t attributes = {0};
  char weight[NAME_BYTES], bias[NAME_BYTES];
  attribute_int(&attributes, "axis", -1);
  attribute_float(&attributes, "epsilon", 1e-12f);
  snprintf(out, NAME_BYTES, "%s",
           NODE(graph, "LayerNormalization", &attributes, input, WEIGHT(graph, weight, prefix, "weight", WIDTH),
                WEIGHT(graph, bias, prefix, "bias", WIDTH)));
}

static void add_dropout(graph_t *graph, char inout[NAME_BYTES]) {
  snprintf(inout, NAME_BYTES, "%s", NODE(graph, "Dropout", NULL, inout, "dropout_ratio", "is_training"));
}

// Heads beside each other as a dimension of their own, before the tokens; keys have their last two dimensions exchanged.
static void add_heads(graph_t *graph, char out[NAME_BYTES], const char *input, const char *prefix, int is_key) {
  attributes_t attributes = {0};
  add_linear(graph, out, input, prefix, WIDTH, WIDTH);
  const char *split = NODE(graph, "Reshape", NULL, out, "shape_of_heads");
  attribute_ints(&attributes, "perm", is_key ? (const int64_t[]){0, 2, 3, 1} : (const int64_t[]){0, 2, 1, 3}, 4);
  snprintf(out, NAME_BYTES, "%s", NODE(graph, "Transpose", &attributes, split));
}

static void add_attention(graph_t *graph, char out[NAME_BYTES], const char *input, const char *prefix) {
  static const char *const names[] = {"query", "key", "value"};
  attributes_t attributes = {0};
  char parts[3][NAME_BYTES], part[NAME_BYTES], a[NAME_BYTES];
  for (int i = 0; i < 3; ++i) {
    snprintf(part, sizeof part, "%.60s.%s", prefix, names[i]);
    add_heads(graph, parts[i], input, part, i == 1);
  }
  const char *scores = NODE(graph, "MatMul", NULL, parts[0], parts[1]);
  const char *scaled = NODE(graph, "Mul", NULL, scores, "attention_scale");
  attribute_int(&attributes, "axis", -1);
  const char *weights = NODE(graph, "Softmax", &attributes, scaled);
  const char *mixed = NODE(graph, "MatMul", NULL, weights, parts[2]);
  attribute_ints(&attributes, "perm", (const int64_t[]){0, 2, 1, 3}, 4);
  const char *tokens = NODE(graph, "Transpose", &attributes, mixed);
  snprintf(a, sizeof a, "%s", NODE(graph, "Reshape", NULL, tokens, "shape_of_tokens"));
  snprintf(part, sizeof part, "%.60s.output", prefix);
  add_linear(graph, out, a, part, WIDTH, WIDTH);
}

// x (1 + erf(x / sqrt 2)) / 2
static void add_gelu(graph_t *graph, char inout[NAME_BYTES]) {
  const char *scaled = NODE(graph, "Mul", NULL, inout, "root_of_half");
  const char *bent = NODE(graph, "Erf", NULL, scaled);
  const char *raised = NODE(graph, "Add", NULL, bent, "one");
  const char *product = NODE(graph, "Mul", NULL, inout, raised);
  snprintf(inout, NAME_BYTES, "%s", NODE(graph, "Mul", NULL, product, "half"));
}

static void add_layer(graph_t *graph, char inout[NAME_BYTES], int layer) {
  char prefix[NAME_BYTES], part[NAME_BYTES], a[NAME_BYTES], attended[NAME_BYTES];
  snprintf(prefix, sizeof prefix, "layer%d", layer);
  add_attention(graph, a, inout, prefix);
  add_dropout(graph, a);
  const char *sum = NODE(graph, "Add", NULL, a, inout);
  snprintf(part, sizeof part, "%.60s.norm1", prefix);
  add_norm(graph, attended, sum, part);
  snprintf(part, sizeof part, "%.60s.inner", prefix);
  add_linear(graph, a, attended, part, WIDTH, 4 * WIDTH);
  add_gelu(graph, a);
  snprintf(part, sizeof part, "%.60s.outer", prefix);
  add_linear(graph, a, a, part, 4 * WIDTH, WIDTH);
  add_dropout(graph, a);
  sum = NODE(graph, "Add", NULL, a, attended);
  snprintf(part, sizeof part, "%.60s.norm2", prefix);
  add_norm(graph, inout, sum, part);
}

static void add_bert_constants(graph_t *graph) {
  const struct {
    const char *name;
    float value;
  } floats[] = {{"attention_scale", 0.125f}, {"root_of_half", 0.70710678f}, {"one", 1.0f}, {"half", 0.5f}, {"dropout_ratio", 0.1f}};
  const int64_t heads[] = {0, 0, HEADS, WIDTH / HEADS}, tokens[] = {0, 0, WIDTH}, first = 0;
  const uint8_t is_training = 1;
  for (size_t i = 0; i < sizeof floats / sizeof *floats; ++i) add_constant(graph, floats[i].name, FLOAT, &floats[i].value, 4, 1, 0);
  add_constant(graph, "shape_of_heads", INT64, heads, 8, 4, 1);
  add_constant(graph, "shape_of_tokens", INT64, tokens, 8, 3, 1);
  add_constant(graph, "first_token", INT64, &first, 8, 1, 0);
  add_constant(graph, "is_training", BOOL, &is_training, 1, 1, 0);
}

static void add_bert_base(graph_t *graph) {
  attributes_t attributes = {0};
  char a[NAME_BYTES], words[NAME_BYTES], places[NAME_BYTES];
  add_bert_constants(graph);
  add_end(graph, GRAPH_INPUT, "input_ids", INT64, (const int64_t[]){TOKENS}, 1);
  const char *embedded = NODE(graph, "Gather", NULL, WEIGHT(graph, words, "words", "weight", WORDS, WIDTH), "input_ids");
  const char *placed = NODE(graph, "Add", NULL, embedded, WEIGHT(graph, places, "places", "weight", TOKENS, WIDTH));
  add_norm(graph, a, placed, "embedding.norm");
  add_dropout(graph, a);
  for (int layer = 0; layer < LAYERS; ++layer) add_layer(graph, a, layer);
  attribute_int(&attributes, "axis", 1);
  snprintf(a, sizeof a, "%s", NODE(graph, "Gather", &attributes, a, "first_token"));
  add_linear(graph, a, a, "pooler", WIDTH, WIDTH);
  snprintf(a, sizeof a, "%s", NODE(graph, "Tanh", NULL, a));
  add_linear(graph, a, a, "head", WIDTH, 2);
  add_end(graph, GRAPH_OUTPUT, a, FLOAT, (const int64_t[]){2}, 1);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*add)(graph_t *graph);
  } models[] = {{"resnet50", add_resnet50}, {"bert_base", add_bert_base}};
  graph_t graph = {0};
  for (size_t i = 0; argc == 3 && i < sizeof models / sizeof *models; ++i) {
    if (strcmp(argv[1], models[i].name) != 0) continue;
    models[i].add(&graph);
    return write_model(&graph, models[i].name, argv[2]);
  }
  fprintf(stderr, "usage: make_model resnet50|bert_base OUT.onnx\n");
  return 2;
}

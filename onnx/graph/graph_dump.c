// The readable dump of a graph: its canonical text with node names.
#include "base/text.h"
#include "onnx/graph/graph_write.h"

typedef struct dump {
  delta_text_t *text;
  delta_status_t status; // the first failure; later pieces are dropped
} dump_t;

static void dump_write(void *self, const char *text, size_t length) {
  dump_t *dump = self;
  if (dump->status == DELTA_OK) dump->status = delta_text_append(dump->text, "%.*s", (int)length, text);
}

delta_status_t delta_graph_dump(const delta_graph_t *graph, struct delta_text *out_text) {
  dump_t dump = {.text = out_text};
  delta_graph_write_all((delta_graph_sink_t){.self = &dump, .write = dump_write}, graph, true);
  return dump.status;
}

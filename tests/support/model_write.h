// Model write: a model made from text (model_text.h) as an ONNX file, for tests of what reads files.
#ifndef DELTA_TESTS_SUPPORT_MODEL_WRITE_H_
#define DELTA_TESTS_SUPPORT_MODEL_WRITE_H_

// Writes the model that `text` describes to `path`. Attributes may be integers, reals and lists of integers. Fails the running test on bad
// text.
void delta_test_write_model(const char *text, const char *path);

#endif // DELTA_TESTS_SUPPORT_MODEL_WRITE_H_

/* Greedy decoding with a KV cache through the C ABI: a prompt of any length, then one token at a time.
 *
 *   liveshape compile models/demo/demo.pt2 -o demo.live
 *   greedy demo.live 8 5 6 7          prints 8 tokens that follow 5 6 7
 *
 * The model has inputs tokens i64[B, S] and pos (an integer), and one output of logits f32[B, V] for the last token.
 */
#include <liveshape/c_api.h>
#include <stdio.h>
#include <stdlib.h>

static void need(ls_status status) {
  if (status == LS_OK) return;
  fprintf(stderr, "greedy: %s\n", ls_last_error());
  exit(1);
}

static int64_t best(const ls_tensor* logits) {
  const float* values = logits->data;
  int64_t found = 0;
  for (int64_t i = 1; i < logits->dims[1]; ++i)
    if (values[i] > values[found]) found = i;
  return found;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: greedy MODEL.live COUNT TOKEN...\n");
    return 2;
  }
  ls_artifact* artifact = NULL;
  ls_session* session = NULL;
  need(ls_artifact_load_file(argv[1], NULL, &artifact));
  need(ls_session_create(artifact, NULL, &session));

  int64_t length = argc - 3, position = 0;
  int64_t* tokens = malloc(sizeof(int64_t) * (size_t)length);
  if (tokens == NULL) return 1;
  for (int64_t i = 0; i < length; ++i) tokens[i] = atoll(argv[3 + i]);

  for (long left = atol(argv[2]); left > 0; --left) {
    /* The live shape is [1, length]: the prompt's at first, then [1, 1]. Nothing is rebuilt between. */
    const int64_t dims[2] = {1, length};
    const ls_tensor inputs[2] = {
        {LS_I64, 2, dims, tokens, sizeof(int64_t) * (size_t)length},
        {LS_I64, 0, NULL, &position, sizeof(position)},
    };
    ls_tensor logits;
    need(ls_session_run(session, inputs, 2, NULL, 0));
    need(ls_session_output(session, 0, &logits));
    position += length;
    length = 1;
    tokens[0] = best(&logits);
    printf("%lld ", (long long)tokens[0]);
  }
  printf("\n");
  free(tokens);
  ls_session_free(session);
  ls_artifact_free(artifact);
  return 0;
}

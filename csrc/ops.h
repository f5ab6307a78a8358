// Guarded op builders. ops_list.h lists their names and parameters; with a NULL arena (a call that
// failed its checks) they build nothing.
#ifndef GOGGML_OPS_H
#define GOGGML_OPS_H

#include "arena.h"

typedef goggml_arena *goggml_a;
typedef struct ggml_tensor *goggml_t;
typedef enum ggml_type goggml_type;

#define GOGGML_OP(name, params, args) goggml_tensor goggml_op_##name params;
#include "ops_list.h"
#undef GOGGML_OP

#endif

#include "baseline.h"

#include <stdlib.h>

#include <ggml.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>

static struct ggml_context *new_context(size_t tensors, size_t nodes) {
	struct ggml_init_params params = {
		.mem_size = tensors * ggml_tensor_overhead() + (nodes > 0 ? ggml_graph_overhead_custom(nodes, false) : 0),
		.no_alloc = true,
	};
	struct ggml_context *ctx = ggml_init(params);
	if (ctx == NULL) {
		abort();
	}
	return ctx;
}

static struct ggml_cgraph *build(struct ggml_context *ctx, int blocks, struct ggml_tensor *w, struct ggml_tensor *x) {
	for (int i = 0; i < blocks; i++) {
		x = ggml_add(ctx, ggml_silu(ctx, ggml_rms_norm(ctx, ggml_mul_mat(ctx, w, x), 1e-5f)), x);
	}
	struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, 4 * blocks + 8, false);
	ggml_build_forward_expand(graph, x);
	return graph;
}

int baseline_build(int times, int blocks) {
	struct ggml_context *weights = new_context(1, 0);
	struct ggml_tensor *w = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 64, 64);
	int nodes = 0;
	for (int i = 0; i < times; i++) {
		struct ggml_context *ctx = new_context(4 * blocks + 8, 4 * blocks + 8);
		nodes = ggml_graph_n_nodes(build(ctx, blocks, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 8)));
		ggml_free(ctx);
	}
	ggml_free(weights);
	return nodes;
}

struct baseline_program {
	struct ggml_context *ctx;
	struct ggml_cgraph *graph;
	ggml_backend_t backend;
	ggml_backend_buffer_t buffer;
};

static void set_threads(ggml_backend_t backend, int n) {
	ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
	ggml_backend_set_n_threads_t set = (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
	set(backend, n);
}

struct baseline_program *baseline_new(int blocks, int64_t size, int64_t columns) {
	struct baseline_program *p = calloc(1, sizeof *p);
	p->ctx = new_context(4 * blocks + 8, 4 * blocks + 8);
	struct ggml_tensor *w = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, size, size);
	struct ggml_tensor *x = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, size, columns);
	p->graph = build(p->ctx, blocks, w, x);
	p->backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
	set_threads(p->backend, 1);
	p->buffer = ggml_backend_alloc_ctx_tensors(p->ctx, p->backend);
	float *data = malloc(ggml_nbytes(w));
	for (int64_t i = 0; i < size * size; i++) {
		data[i] = (float)(i % 7) / 7;
	}
	ggml_backend_tensor_set(w, data, 0, ggml_nbytes(w));
	ggml_backend_tensor_set(x, data, 0, ggml_nbytes(x));
	free(data);
	return p;
}

void baseline_compute(struct baseline_program *p, int times) {
	for (int i = 0; i < times; i++) {
		if (ggml_backend_graph_compute(p->backend, p->graph) != GGML_STATUS_SUCCESS) {
			abort();
		}
	}
}

void baseline_free(struct baseline_program *p) {
	ggml_backend_buffer_free(p->buffer);
	ggml_backend_free(p->backend);
	ggml_free(p->ctx);
	free(p);
}

typedef void (*start_server)(const char *endpoint, const char *cache, size_t threads, size_t n, ggml_backend_dev_t *devices);

void baseline_serve_rpc(const char *endpoint, int threads) {
	ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
	start_server start = (start_server)ggml_backend_reg_get_proc_address(ggml_backend_reg_by_name("RPC"), "ggml_backend_rpc_start_server");
	start(endpoint, NULL, threads, 1, &cpu);
}

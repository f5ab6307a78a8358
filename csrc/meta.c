//go:build ignore

#include "meta.h"

#include <string.h>

extern void goggmlSplit(uintptr_t id, struct ggml_tensor *tensor, goggml_split *split);

static goggml_split goggml_on_split(const struct ggml_tensor *tensor, void *id) {
	goggml_split split;
	memset(&split, 0, sizeof split);
	goggml_guard_state outer = goggml_guard_suspend();
	goggmlSplit((uintptr_t)id, (struct ggml_tensor *)tensor, &split);
	goggml_guard_resume(outer);
	return split;
}

goggml_ptr goggml_split_axis_name(int axis) {
	GUARDED(goggml_ptr, (void *)ggml_backend_meta_split_axis_name((enum ggml_backend_meta_split_axis)axis))
}

goggml_ptr goggml_meta_device(ggml_backend_dev_t *devices, size_t n, uintptr_t id) {
	GUARDED(goggml_ptr, ggml_backend_meta_device(devices, n, goggml_on_split, (void *)id))
}

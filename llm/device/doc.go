// Package device computes graphs on the devices of a layout: an [Engine] opens them, with memory for results, and chooses
// the ops that suit them. It is not for saying which device holds which weight, which package layout does, and not for what
// a run will need, which package estimate says.
//
// On the CPU alone an engine has a backend and a graph allocator. Other layouts have a scheduler, which runs ops where
// their weights lie, copies between devices, and gives the CPU what a device lacks. A weight that lies elsewhere than the
// layout says is an error: ggml would copy it for each computation, and lose what is written to the copy. Devices reorder
// nodes, so no graph may depend on an order that its operands do not show. The engine gives each weight the lowering of its
// device, for training, prefill and decode; [OpSet] demands built-in ops everywhere. What engines know beside the table of
// a device (copies of weights, scaled losses, compute types) is a row for each op set: a device has the first that takes
// it. Checkpoints are the same whatever wrote them.
package device

// Package device computes graphs on the devices of a layout. An [Engine] opens the devices with memory for results, and
// selects suitable ops. Package layout assigns weights to devices, and package estimate estimates the memory of a run.
//
// On the CPU alone, an engine has a backend and a graph allocator. Other layouts use a scheduler, which runs ops on the
// device of their weights, copies between devices, and runs on the CPU what a device does not support. A weight outside
// of its device in the layout is an error: ggml would copy it for each computation, and lose what is written to the
// copy. Devices reorder nodes, so graphs must not depend on an order that operands do not express. The engine lowers
// the operations on each weight for the weight's device, in training, prefill and decode; [OpSet] selects other ops for
// all devices. What engines must know beside a device's table (weight copies, loss scaling, compute types) is a row per
// op set: a device uses the first op set that accepts it. Checkpoints do not depend on the device.
package device

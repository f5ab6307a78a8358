// Package layout says which device of ggml holds which weight of a model, and holds tensors there; it is not for
// computing with them, which package device does.
//
// A [Layout] places weights by layer and kind; the CPU is always its last device. Adapters, gradients, moments, keys and
// values lie with their weight, in a [Memory]. On a device other than the CPU, all A and then all B are in one tensor
// ([Packing]), so that the optimiser updates runs of parameters by one op each.
//
// A [Planner] finds the layout with the most layers on devices that fits, with the fewest experts on the CPU.
package layout

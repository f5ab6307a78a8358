// Package layout assigns the weights of a model to devices and holds tensors there. Package device computes with them.
//
// A [Layout] assigns weights by layer and kind; the CPU is always its last device. Adapters, gradients, moments, keys
// and values are on the device of their weight, in a [Memory]. On a device other than the CPU, one tensor holds all A
// and then all B ([Packing]), so that the optimiser updates runs of parameters with one op each.
//
// A [Planner] finds the fitting layout with the most layers on devices and the fewest experts on the CPU.
package layout

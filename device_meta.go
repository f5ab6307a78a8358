package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A TensorSplitAxis selects how a tensor is spread over the devices of a meta device. C: enum
// ggml_backend_meta_split_axis.
type TensorSplitAxis int

// The ways to spread a tensor. TensorSplitNone and TensorSplitUnknown are plumbing: ggml
// uses them itself.
const (
	TensorSplitAxis0    TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_0 // each device has a range of dimension 0
	TensorSplitAxis1    TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_1
	TensorSplitAxis2    TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_2
	TensorSplitAxis3    TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_3
	TensorSplitMirrored TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_MIRRORED // each device has the whole tensor
	TensorSplitPartial  TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_PARTIAL  // the tensor is the sum of the devices' tensors
	TensorSplitNone     TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_NONE
	TensorSplitUnknown  TensorSplitAxis = C.GGML_BACKEND_SPLIT_AXIS_UNKNOWN
)

// String returns the name of the axis. C: ggml_backend_meta_split_axis_name.
func (a TensorSplitAxis) String() string {
	r := C.goggml_split_axis_name(C.int(a))
	if guardError(r.error) != nil || r.value == nil {
		return fmt.Sprintf("TensorSplitAxis(%d)", int(a))
	}
	return C.GoString((*C.char)(r.value))
}

// A TensorSplit describes how a tensor is spread over the devices of a meta device. C: struct
// ggml_backend_meta_split_state.
type TensorSplit struct {
	Axis     TensorSplitAxis      // TensorSplitAxis0 to TensorSplitAxis3, or TensorSplitMirrored
	Segments []TensorSplitSegment // with TensorSplitAxis0 to TensorSplitAxis3: consecutive along the axis
}

// A TensorSplitSegment is a range of a tensor that is spread over the devices by itself. Most
// tensors have one segment; a tensor that holds several weights has one for each.
type TensorSplitSegment struct {
	Sizes  []int64 // size of each device's part along the axis
	Repeat int     // number of repetitions in a row; 0 means 1
}

// SplitTensorEvenly splits a tensor along one of its dimensions into parts that are multiples of
// unit elements and as equal as possible. The number of devices is 1 to 16; for other numbers, or a
// nil tensor, the split has no parts.
func SplitTensorEvenly(t *Tensor, axis TensorSplitAxis, unit int64, devices int) TensorSplit {
	if t.ptr() == nil || devices < 1 || devices > C.GGML_BACKEND_META_MAX_DEVICES {
		return TensorSplit{Axis: axis}
	}
	split := TensorSplit{Axis: axis, Segments: []TensorSplitSegment{{}}}
	units, last := t.Dim(int(axis))/max(1, unit), int64(0)
	for i := range int64(devices) {
		next := units * (i + 1) / int64(devices) * max(1, unit)
		if i == int64(devices)-1 {
			next = t.Dim(int(axis))
		}
		split.Segments[0].Sizes = append(split.Segments[0].Sizes, next-last)
		last = next
	}
	return split
}

// A metaDevice is the package's record of a meta device. It lives as long as the process, like the
// device.
type metaDevice struct {
	devices []C.ggml_backend_dev_t
	split   func(*Tensor) TensorSplit
	memory  C.ggml_backend_buffer_type_t
	failure atomic.Pointer[error] // of split
}

var metaDevices struct {
	sync.Mutex // held while a meta device is made: ggml cannot make two at once
	list       []*metaDevice
	byDevice   sync.Map // C.ggml_backend_dev_t → *metaDevice
	some       atomic.Bool
}

// NewMetaDevice makes one device of several, which compute a graph together. split returns how a
// weight is spread over them; ggml spreads the results of ops to match, and sums partial results
// over all devices. For two products in a row, for example, split the first weight along dimension
// 1 (each device has some outputs) and the second along dimension 0 (each has some inputs): only
// the last result is then exchanged. The devices remain usable by themselves.
//
// ggml calls split several times for each tensor allocated in the device's memory, from any
// goroutine; split must always return the same result. If a split does not fit the tensor, or split
// panics, the calling function returns that as its error. A result that is a sum over the devices
// can be read only after another op, for example [Context.Scale] by 1. Make meta devices before
// computing with one. C: ggml_backend_meta_device.
func NewMetaDevice(split func(weight *Tensor) TensorSplit, devices ...*Device) (*Device, error) {
	if split == nil || len(devices) == 0 || len(devices) > C.GGML_BACKEND_META_MAX_DEVICES {
		return nil, fmt.Errorf("ggml: a meta device needs a function and 1 to %d devices", C.GGML_BACKEND_META_MAX_DEVICES)
	}
	m := &metaDevice{split: split}
	for _, d := range devices {
		if d == nil || d.Type() == MetaDevice {
			return nil, fmt.Errorf("ggml: a meta device cannot contain nil or another meta device")
		}
		if d.isZero() {
			return nil, zeroError()
		}
		m.devices = append(m.devices, d.d)
	}
	metaDevices.Lock()
	defer metaDevices.Unlock()
	metaDevices.list = append(metaDevices.list, m)
	r := C.goggml_meta_device(&m.devices[0], C.size_t(len(devices)), C.uintptr_t(len(metaDevices.list)))
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: meta device: %w", err)
	}
	d := &Device{C.ggml_backend_dev_t(r.value)}
	m.memory = C.ggml_backend_dev_buffer_type(d.d)
	metaDevices.byDevice.Store(d.d, m)
	metaDevices.some.Store(true)
	return d, nil
}

// metaOf returns the record of a device, or nil if it is not a meta device.
func metaOf(d C.ggml_backend_dev_t) *metaDevice {
	if !metaDevices.some.Load() {
		return nil
	}
	m, _ := metaDevices.byDevice.Load(d)
	known, _ := m.(*metaDevice)
	return known
}

//export goggmlSplit
func goggmlSplit(id C.uintptr_t, t *C.struct_ggml_tensor, s *C.goggml_split) {
	metaDevices.Lock()
	m := metaDevices.list[id-1]
	metaDevices.Unlock()
	s.axis = C.enum_ggml_backend_meta_split_axis(TensorSplitMirrored)
	s.n_segments, s.nr[0] = 1, 1
	c := NewContext() // the package may not know the tensor
	defer c.Close()
	tensor := newTensor(c, t)
	err := protect(func() error {
		split := m.split(tensor)
		if err := split.check(tensor, len(m.devices)); err != nil {
			return err
		}
		split.fill(s, len(m.devices))
		return nil
	})
	if err != nil {
		err = fmt.Errorf("the split of %v: %w", tensor, err)
		m.failure.CompareAndSwap(nil, &err)
	}
}

// check returns why the split does not fit the tensor, or nil.
func (s TensorSplit) check(t *Tensor, devices int) error {
	if s.Axis == TensorSplitMirrored && s.Segments == nil {
		return nil
	}
	if s.Axis < TensorSplitAxis0 || s.Axis > TensorSplitAxis3 || len(s.Segments) == 0 || len(s.Segments) > C.GGML_BACKEND_META_MAX_DEVICES {
		return fmt.Errorf("give one of the axes TensorSplitAxis0 to TensorSplitAxis3 with 1 to %d segments, or TensorSplitMirrored without segments", C.GGML_BACKEND_META_MAX_DEVICES)
	}
	unit := int64(1)
	if s.Axis == TensorSplitAxis0 {
		unit = t.typ.BlockSize()
	}
	var sum int64
	for _, segment := range s.Segments {
		if len(segment.Sizes) != devices {
			return fmt.Errorf("a segment has %d sizes for %d devices", len(segment.Sizes), devices)
		}
		for _, n := range segment.Sizes {
			if n < 0 || n%unit != 0 || n > t.Dim(int(s.Axis)) || segment.Repeat < 0 || int64(segment.Repeat) > t.Dim(int(s.Axis)) {
				return fmt.Errorf("%d elements, %d times: they must be a multiple of %d and fit into %d", n, max(1, segment.Repeat), unit, t.Dim(int(s.Axis)))
			}
			sum += n * int64(max(1, segment.Repeat))
		}
	}
	if sum != t.Dim(int(s.Axis)) {
		return fmt.Errorf("the sizes add up to %d, the axis has %d", sum, t.Dim(int(s.Axis)))
	}
	return nil
}

func (s TensorSplit) fill(c *C.goggml_split, devices int) {
	c.axis = C.enum_ggml_backend_meta_split_axis(s.Axis)
	if s.Axis == TensorSplitMirrored {
		return
	}
	c.n_segments = C.uint32_t(len(s.Segments))
	for i, segment := range s.Segments {
		c.nr[i] = C.uint32_t(max(1, segment.Repeat))
		for j, n := range segment.Sizes {
			c.ne[i*devices+j] = C.int64_t(n)
		}
	}
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// A Dataset is a table of samples and their labels in ordinary memory, which an [Optimizer] reads
// in batches. Shuffling moves whole shards of consecutive samples.
//
// It is safe for concurrent use; its data is not locked, like the data of any [Tensor]. C:
// ggml_opt_dataset_t.
type Dataset struct {
	h           *handle
	d           C.ggml_opt_dataset_t
	mu          sync.Mutex // guards the order of the samples
	data        *Tensor
	labels      *Tensor // nil without labels
	shard       int64
	dataBytes   int64 // bytes of samples in a shard
	labelsBytes int64
}

// DatasetOptions are the sizes of a [Dataset].
type DatasetOptions struct {
	Samples             int64 // number of samples
	SampleSize          int64 // elements of a sample
	LabelSize           int64 // elements of a label, 0 for no labels
	DataType, LabelType Type  // types of these elements; the zero value is F32

	// Shard is the number of consecutive samples shuffled as one: it divides Samples, and batches
	// are multiples of it. A larger shard is faster; 0 means 1.
	Shard int64
}

// NewDataset makes a data set. Fill [Dataset.Data] and [Dataset.Labels] before
// use. C: ggml_opt_dataset_init.
func NewDataset(o DatasetOptions) (*Dataset, error) {
	if o.Shard == 0 {
		o.Shard = 1
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.LabelSize == 0 {
		o.LabelType = F32
	}
	r := C.goggml_dataset_new(C.enum_ggml_type(o.DataType), C.enum_ggml_type(o.LabelType), C.int64_t(o.SampleSize), C.int64_t(o.LabelSize), C.int64_t(o.Samples), C.int64_t(o.Shard))
	if err := guardError(r.error); err != nil {
		return nil, datasetError("%v", err)
	}
	if r.value == nil {
		return nil, datasetTooLarge("out of memory; use fewer samples")
	}
	cd := C.ggml_opt_dataset_t(r.value)
	c, err := contextFor("dataset", func() { C.ggml_opt_dataset_free(cd) })
	if err != nil {
		return nil, err
	}
	d := &Dataset{h: c.h, d: cd, data: newTensor(c, C.ggml_opt_dataset_data(cd)).SetName("data"), shard: o.Shard}
	d.dataBytes = o.DataType.RowSize(o.SampleSize) * o.Shard
	if o.LabelSize > 0 {
		d.labels = newTensor(c, C.ggml_opt_dataset_labels(cd)).SetName("labels")
		d.labelsBytes = o.LabelType.RowSize(o.LabelSize) * o.Shard
	}
	closeOnCollect(d, d.h)
	return d, nil
}

// contextFor makes a context for tensors that a C object owns: they are valid as long as its handle
// is open.
func contextFor(kind string, free func(), parents ...*handle) (*Context, error) {
	arena, graphs := C.goggml_arena_new(), C.goggml_arena_new()
	release := func() {
		free()
		C.goggml_arena_free(graphs)
		C.goggml_arena_free(arena)
	}
	if arena == nil || graphs == nil {
		release()
		return nil, fmt.Errorf("ggml: %s: %w", kind, ErrOutOfMemory)
	}
	h, err := newHandle(kind, release, parents...)
	return &Context{contextCore: &contextCore{h: h, arena: arena}, graphs: graphs}, err
}

func datasetError(format string, args ...any) error {
	return callError(nil, fmt.Sprintf(format, args...))
}

func datasetTooLarge(reason string) error {
	return callError(ErrOutOfMemory, reason)
}

func (o *DatasetOptions) check() error {
	hasLabels := o.LabelSize > 0
	switch {
	case !o.DataType.IsValid():
		return datasetError("there is no type %d for the data", int32(o.DataType))
	case hasLabels && !o.LabelType.IsValid():
		return datasetError("there is no type %d for the labels", int32(o.LabelType))
	case o.SampleSize < 1 || o.SampleSize%o.DataType.BlockSize() != 0:
		return datasetError("a sample has %d elements; of type %v it must have a positive multiple of %d", o.SampleSize, o.DataType, o.DataType.BlockSize())
	case o.LabelSize < 0 || hasLabels && o.LabelSize%o.LabelType.BlockSize() != 0:
		return datasetError("a label has %d elements; of type %v it must have a multiple of %d, or 0 for no labels", o.LabelSize, o.LabelType, o.LabelType.BlockSize())
	case o.Samples < 1:
		return datasetError("%d samples: there must be at least 1", o.Samples)
	case o.Shard < 1 || o.Samples%o.Shard != 0:
		return datasetError("shards of %d samples do not divide %d samples evenly; 1 always does", o.Shard, o.Samples)
	}
	// ggml multiplies the size by the shard.
	bytes := float64(o.DataType.BlockBytes()) / float64(o.DataType.BlockSize()) * float64(o.SampleSize)
	if hasLabels {
		bytes += float64(o.LabelType.BlockBytes()) / float64(o.LabelType.BlockSize()) * float64(o.LabelSize)
	}
	if bytes*float64(o.Samples)*float64(o.Shard) >= maxBytes {
		return datasetError("the data set is too large")
	}
	// The system may overcommit memory, and ggml immediately writes the order of the shards, 8
	// bytes each.
	bytes = bytes*float64(o.Samples) + 8*float64(o.Samples/o.Shard)
	cpu, err := DeviceByType(CPU)
	if err != nil {
		return err
	}
	if total := cpu.Properties().MemoryTotal; total > 0 && bytes > float64(total) {
		return datasetTooLarge(fmt.Sprintf("the data set takes %.3g bytes, but the machine has only %.3g; use fewer samples", bytes, float64(total)))
	}
	return nil
}

// Close frees the data set when its last use has ended. It never fails. C: ggml_opt_dataset_free.
func (d *Dataset) Close() error {
	if d != nil {
		d.h.close()
	}
	return nil
}

// NumSamples returns the number of samples. C: ggml_opt_dataset_ndata.
func (d *Dataset) NumSamples() int64 {
	d = made(d)
	if d.data == nil { // zero value
		return 0
	}
	return d.data.ne[1]
}

// Data returns the tensor of the samples, [SampleSize, Samples], in system memory. C:
// ggml_opt_dataset_data.
func (d *Dataset) Data() *Tensor {
	d = made(d)
	return d.data
}

// Labels returns the tensor of the labels, [LabelSize, Samples], in system memory; nil for a data
// set without labels. C: ggml_opt_dataset_labels.
func (d *Dataset) Labels() *Tensor {
	d = made(d)
	return d.labels
}

// Shuffle reorders the shards of the first n samples, or all if n is negative, by the optimizer's
// random numbers, which are the same in each run. It changes the order of batches for CopyBatch,
// not the tensors. C: ggml_opt_dataset_shuffle.
func (d *Dataset) Shuffle(o *Optimizer, n int64) error {
	if d == nil || o == nil {
		return optError(errNil, "the data set or the optimizer is nil")
	}
	for _, h := range []*handle{d.h, o.h} {
		if err := h.acquire(); err != nil {
			return during(err)
		}
		defer h.release()
	}
	if n > d.NumSamples() || n > 0 && n%d.shard != 0 {
		return optError(nil, "%d samples: there are %d, in shards of %d", n, d.NumSamples(), d.shard)
	}
	if err := lock(&o.mu); err != nil {
		return during(err)
	}
	defer o.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return guardError(C.goggml_dataset_shuffle(o.o.opt, d.d, C.int64_t(n)))
}

// CopyBatch copies batch i to data [SampleSize, k] and labels [LabelSize, k], contiguous tensors of
// the data set's types on any device. k is a multiple of the shard; labels is nil for a data set
// without labels. Batch i consists of the k samples from i·k on, in their current order. C:
// ggml_opt_dataset_get_batch.
func (d *Dataset) CopyBatch(data, labels *Tensor, i int64) error {
	if d == nil {
		return optError(errNil, "the data set is nil")
	}
	if err := data.missing(); err != nil {
		return err
	}
	tensors := []*Tensor{data}
	contexts := data.ctx.withDependencies()
	if labels != nil {
		if err := labels.missing(); err != nil {
			return err
		}
		tensors = append(tensors, labels)
		contexts = append(contexts, labels.ctx.withDependencies()...)
	}
	release, err := retainChecked(contexts)
	if err != nil {
		return during(err, data.operand())
	}
	defer release()
	if err := d.h.acquire(); err != nil {
		return during(err, data.operand())
	}
	defer d.h.release()
	if err := d.fits(data, labels); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.accessible(writes); err != nil {
			return err
		}
		if err := t.checkRepacked(0, 0, writes); err != nil {
			return err
		}
	}
	samples := int64(C.ggml_nbytes(data.t)) / d.dataBytes * d.shard
	if err := d.inRange(samples, i); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := guardError(C.goggml_dataset_batch(d.d, data.t, labels.ptr(), C.int64_t(i))); err != nil {
		return data.errorf(nil, "%v", err)
	}
	return nil
}

// fits returns why the retained tensors cannot take a batch, or nil.
func (d *Dataset) fits(data, labels *Tensor) error {
	size := int64(C.ggml_nbytes(data.t))
	switch {
	case data.typ != d.data.typ:
		return data.errorf(nil, "the samples have type %v", d.data.typ)
	case !bool(C.ggml_is_contiguous(data.t)):
		return data.errorf(nil, "the tensor must be contiguous")
	case size%d.dataBytes != 0:
		return data.errorf(nil, "the tensor must hold whole shards: a multiple of %d samples of %d elements", d.shard, d.data.ne[0])
	case labels == nil && d.labels != nil:
		return optError(nil, "the data set has labels, but the tensor for them is nil; a loss that uses none takes a data set with labels of 0 elements")
	case labels == nil:
		return nil
	case d.labels == nil:
		return labels.errorf(nil, "the data set has no labels")
	case labels.typ != d.labels.typ:
		return labels.errorf(nil, "the labels have type %v", d.labels.typ)
	case !bool(C.ggml_is_contiguous(labels.t)):
		return labels.errorf(nil, "the tensor must be contiguous")
	case int64(C.ggml_nbytes(labels.t)) != size/d.dataBytes*d.labelsBytes:
		return labels.errorf(nil, "the tensor must hold %d labels of %d elements", size/d.dataBytes*d.shard, d.labels.ne[0])
	}
	return nil
}

func (d *Dataset) inRange(samples, i int64) error {
	if samples > d.NumSamples() {
		return optError(nil, "a batch of %d samples: the data set has only %d", samples, d.NumSamples())
	}
	if batches := d.NumSamples() / samples; i < 0 || i >= batches {
		return optError(nil, "batch %d is out of range: there are %d of %d samples", i, batches, samples)
	}
	return nil
}

// ReadBatch is CopyBatch to memory of the program, as raw bytes.
// C: ggml_opt_dataset_get_batch_host.
func (d *Dataset) ReadBatch(data, labels []byte, i int64) error {
	if d == nil {
		return optError(errNil, "the data set is nil")
	}
	if err := d.h.acquire(); err != nil {
		return during(err)
	}
	defer d.h.release()
	shards := int64(len(data)) / d.dataBytes
	if shards < 1 || int64(len(data))%d.dataBytes != 0 {
		return optError(nil, "%d bytes of data: they must hold whole shards of %d bytes", len(data), d.dataBytes)
	}
	if int64(len(labels)) != shards*d.labelsBytes {
		return optError(nil, "%d bytes of labels: the labels take %d", len(labels), shards*d.labelsBytes)
	}
	if err := d.inRange(shards*d.shard, i); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return guardError(C.goggml_dataset_batch_host(d.d, unsafe.Pointer(&data[0]), C.size_t(len(data)), unsafe.Pointer(unsafe.SliceData(labels)), C.int64_t(i)))
}

// NewDatasetOf makes a [Dataset] filled with F32 samples and labels: one slice per sample, all of
// one length, and one slice per label, all of one length. If labels is nil, the data set has none.
// The shard size is 1.
func NewDatasetOf(samples, labels [][]float32) (*Dataset, error) {
	if len(samples) == 0 {
		return nil, datasetError("there are no samples")
	}
	if labels != nil && len(labels) != len(samples) {
		return nil, datasetError("there are %d samples and %d labels; each sample has one label, of one or more elements", len(samples), len(labels))
	}
	data, size, err := joinRows("sample", samples)
	if err != nil {
		return nil, err
	}
	wanted, labelSize, err := joinRows("label", labels)
	if err != nil {
		return nil, err
	}
	d, err := NewDataset(DatasetOptions{Samples: int64(len(samples)), SampleSize: size, LabelSize: labelSize})
	if err != nil {
		return nil, err
	}
	if err = Write(d.data, data); err == nil && labels != nil {
		err = Write(d.labels, wanted)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// joinRows concatenates rows of one size.
func joinRows(what string, rows [][]float32) (all []float32, size int64, err error) {
	for i, row := range rows {
		if len(row) == 0 || len(row) != len(rows[0]) {
			return nil, 0, datasetError("%s %d has %d elements, the first has %d; all must have equally many, and at least 1", what, i, len(row), len(rows[0]))
		}
		all = append(all, row...)
	}
	if len(rows) > 0 {
		size = int64(len(rows[0]))
	}
	return all, size, nil
}

// optError returns an error about no particular tensor.
func optError(cause error, format string, args ...any) error {
	return callError(cause, fmt.Sprintf(format, args...))
}

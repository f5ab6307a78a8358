package ggml

// NewF32 makes a constant: an F32 tensor of one element in system memory of its own, freed with the
// context. For many values, make a tensor and write them. C: ggml_new_f32.
func (c *Context) NewF32(value float32) *Tensor { return newConstant(c, value) }

// NewI32 is NewF32 for an I32 tensor. C: ggml_new_i32.
func (c *Context) NewI32(value int32) *Tensor { return newConstant(c, value) }

func newConstant[T Element](c *Context, value T) *Tensor {
	t := c.NewTensor(elementType[T](), 1)
	if t.t == nil {
		return t
	}
	if err := c.allocateConstant(t); err != nil {
		return c.failed(err)
	}
	if err := Write(t, []T{value}); err != nil {
		return c.failed(err)
	}
	return t
}

// failed returns the result of a failed op.
func (c *Context) failed(err error) *Tensor {
	c.fail(err)
	return &Tensor{ctx: c.made(), err: c.Err()}
}

func (c *Context) allocateConstant(t *Tensor) error {
	if err := c.h.acquire(); err != nil {
		return err
	}
	defer c.h.release()
	buffers, err := allocateTensors([]*Tensor{t}, CPUBufferType())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range buffers.list {
		c.constants = append(c.constants, b.h)
	}
	return nil
}

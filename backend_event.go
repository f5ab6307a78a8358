package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"sync"
)

// An Event is a point in a backend's work that other backends can wait for. A device has events
// only if its [DeviceProperties] say so. It is safe for concurrent use. C: ggml_backend_event_t.
type Event struct {
	h        *handle
	e        C.ggml_backend_event_t
	device   *Device
	mu       sync.Mutex // locked after backends
	recorded bool       // guarded by mu: ggml's RPC client waits forever for an event that was never recorded
}

// NewEvent makes an event. It fails on devices that compute synchronously, like the CPU. C:
// ggml_backend_event_new.
func (d *Device) NewEvent() (*Event, error) {
	if d.isZero() {
		return nil, zeroError()
	}
	ce, err := freeEvents.get(d)
	if err != nil {
		return nil, err
	}
	e := &Event{e: ce, device: d}
	dev := d.d
	e.h, err = newHandle("event", func() { freeEvents.put(dev, ce) })
	if err != nil {
		return nil, err
	}
	closeOnCollect(e, e.h)
	return e, nil
}

// freeEvents keeps closed events of each device for reuse: freeing an event leaks a part of it in
// ggml's RPC client.
var freeEvents = eventFreeList{byDevice: map[C.ggml_backend_dev_t][]C.ggml_backend_event_t{}}

type eventFreeList struct {
	mu       sync.Mutex
	byDevice map[C.ggml_backend_dev_t][]C.ggml_backend_event_t
}

const maxFreeEvents = 64 // per device

func (l *eventFreeList) get(d *Device) (C.ggml_backend_event_t, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if free := l.byDevice[d.d]; len(free) > 0 {
		last := len(free) - 1
		l.byDevice[d.d] = free[:last]
		return free[last], nil
	}
	r := C.goggml_event_new(d.d)
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: device %s: event: %w", d.Name(), err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: device %s has no events; use Synchronize of its backends", d.Name())
	}
	return C.ggml_backend_event_t(r.value), nil
}

func (l *eventFreeList) put(d C.ggml_backend_dev_t, e C.ggml_backend_event_t) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byDevice[d]) == maxFreeEvents {
		released(C.goggml_event_free(e))
		return
	}
	l.byDevice[d] = append(l.byDevice[d], e)
}

// Close ends the use of the event; a later [Device.NewEvent] may reuse it. It
// never fails. C: ggml_backend_event_free.
func (e *Event) Close() error {
	if e != nil {
		e.h.close()
	}
	return nil
}

// Record sets the event to the end of all work that the backend has begun. Event and backend share
// one device. C: ggml_backend_event_record.
func (e *Event) Record(b *Backend) error {
	e = made(e)
	return e.withBackend(b, func() *C.char {
		failed := C.goggml_event_record(e.e, b.b)
		e.recorded = e.recorded || failed == nil
		return failed
	})
}

// Wait delays further work of the backend until the event is reached; the call itself does not
// wait. An event that was never recorded counts as reached. Event and backend share one kind of device.
// C: ggml_backend_event_wait.
func (e *Event) Wait(b *Backend) error {
	e = made(e)
	return e.withBackend(b, func() *C.char {
		if !e.recorded {
			return nil
		}
		return C.goggml_event_wait(b.b, e.e)
	})
}

// withBackend calls f with the event and a backend of the same kind of device locked.
func (e *Event) withBackend(b *Backend, f func() *C.char) error {
	if err := e.h.acquire(); err != nil {
		return err
	}
	defer e.h.release()
	if b == nil {
		return fmt.Errorf("ggml: event of device %s: use a backend of this device", e.device.Name())
	}
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	if b.device.Registry().r != e.device.Registry().r {
		return fmt.Errorf("ggml: event of device %s: use a backend of this device", e.device.Name())
	}
	if err := lock(&b.mu); err != nil {
		return err
	}
	defer b.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return guardError(f())
}

// Synchronize waits until the event is reached. An event that was never recorded counts as reached.
// C: ggml_backend_event_synchronize.
func (e *Event) Synchronize() error {
	e = made(e)
	if err := e.h.acquire(); err != nil {
		return err
	}
	defer e.h.release()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.recorded {
		return nil
	}
	return guardError(C.goggml_event_synchronize(e.e))
}

package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// An Adapter is open beside a [Model], for requests that choose it instead of the adapters that the model was opened with.
// It is safe for concurrent use.
type Adapter struct {
	m        *Model
	file     *lora.Adapter
	prepared *infer.Adapters
}

// LoadAdapter opens an adapter at a strength, usually 1: a file or folder that [lora.Load] reads, or the folder of a run, whose
// best adapter is used. Requests that run are not disturbed. The model's Close closes it too.
func (m *Model) LoadAdapter(ctx context.Context, path string, strength float32) (*Adapter, error) {
	if err := m.checkMade(); err != nil {
		return nil, err
	}
	file, err := loadAdapter(path, m.all.model)
	if err != nil {
		return nil, err
	}
	var weights model.Adapters = file.WithScale(strength)
	prepared, err := m.scheduler.NewAdapters(ctx, weights)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	a := &Adapter{m: m, file: file, prepared: prepared}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adapters[a] = true
	return a, nil
}

// Prepared returns the adapter for the options of a request: [generate.Options], [generate.ChatOptions].
func (a *Adapter) Prepared() *infer.Adapters {
	if a == nil {
		return nil
	}
	return a.prepared
}

// Close frees the adapter when the requests that have it have ended; later ones fail.
func (a *Adapter) Close(ctx context.Context) error {
	switch {
	case a == nil:
		return nil
	case a.m == nil:
		return fmt.Errorf("the adapter is a zero value; Model.LoadAdapter makes one: %w", ggml.ErrZeroValue)
	}
	a.m.mu.Lock()
	open := a.m.adapters[a]
	delete(a.m.adapters, a)
	a.m.mu.Unlock()
	if !open {
		return nil
	}
	if err := a.m.scheduler.CloseAdapters(ctx, a.prepared); err != nil {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		a.m.adapters[a] = true // the model's Close frees it
		return err
	}
	return a.file.Close()
}

package ggml_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// The log of ggml goes to slog, line by line.
func TestLogger(t *testing.T) {
	log := captureLog(t)
	_, err := ggml.CPUBufferType().NewBuffer(1 << 55)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Contains(t, log.String(), `level=ERROR msg="ggml: `)
}

// A panic of a logger does not unwind C frames.
func TestPanickingLogger(t *testing.T) {
	captureLog(t)
	ggml.SetLogger(slog.New(panicHandler{slog.NewTextHandler(os.Stderr, nil)}))
	_, err := ggml.CPUBufferType().NewBuffer(1 << 55)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	newAddition(t).works(t)
}

type panicHandler struct{ slog.Handler }

func (panicHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panicHandler) Handle(context.Context, slog.Record) error { panic("no") }

func TestLoggerIsReturned(t *testing.T) {
	before := ggml.Logger()
	require.NotNil(t, before)
	l := slog.New(slog.DiscardHandler)
	ggml.SetLogger(l)
	require.Same(t, l, ggml.Logger())
	ggml.SetLogger(before)
}

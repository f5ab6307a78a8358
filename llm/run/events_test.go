package run

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// A scalar is a value that the reader of events finds.
type scalar struct {
	step  int
	tag   string
	value float32
}

// Each start of a run has its own event file with the metrics, which says what steps it repeats; a start with
// nothing left to do has none.
func TestEvents(t *testing.T) {
	folder := t.TempDir()
	trainer := newTrainer(t, 4)
	options := Options{
		Result: SavedFile{File: File{Path: os.DevNull}}, Write: func(string) error { return nil },
		Valid: oneSample(), ValidEvery: 2, Events: folder, OnStep: func(m train.StepMetrics, _ float64) {},
	}
	_, err := Train(t.Context(), trainer, options)
	require.NoError(t, err)
	files := eventFiles(t, folder)
	require.Len(t, files, 1)
	scalars, from := readEvents(t, files[0])
	require.Equal(t, 1, from)
	var losses, rates, held []float32
	for _, s := range scalars {
		switch s.tag {
		case "train/loss":
			require.Equal(t, len(losses)+1, s.step)
			losses = append(losses, s.value)
		case "train/learning_rate":
			rates = append(rates, s.value)
		case "eval/loss":
			held = append(held, s.value)
		}
	}
	require.Len(t, held, 3)
	for i, m := range trainer.History {
		require.Equal(t, float32(m.Loss), losses[i])
		require.Equal(t, float32(m.LearningRate), rates[i])
	}
	_, err = Train(t.Context(), trainer, options)
	require.NoError(t, err)
	require.Equal(t, files, eventFiles(t, folder))

	e := eventFile{folder: folder, step: 4}
	loss := 1.5
	e.add(Line{Step: 5, Loss: &loss})
	require.NoError(t, e.close())
	more := eventFiles(t, folder)
	require.Len(t, more, 2)
	scalars, from = readEvents(t, more[1])
	require.Equal(t, 5, from)
	require.Contains(t, scalars, scalar{5, "train/loss", 1.5})

	missing := eventFile{folder: filepath.Join(folder, "none")}
	missing.add(Line{Step: 1, Loss: &loss})
	missing.add(Line{Step: 2, Loss: &loss})
	require.ErrorIs(t, missing.close(), os.ErrNotExist)
}

func eventFiles(t *testing.T, folder string) []string {
	files := need.Value(filepath.Glob(filepath.Join(folder, "*.tfevents.*")))(t)
	slices.Sort(files)
	return files
}

// readEvents reads scalars, and the step that a file begins with.
func readEvents(t *testing.T, path string) (scalars []scalar, from int) {
	text := need.Value(os.ReadFile(path))(t)
	require.Equal(t, "brain.Event:2", string(field(t, record(t, &text), 3)))
	start := record(t, &text)
	require.Equal(t, []byte{8, 1}, field(t, start, 7))
	from = int(varint(t, start, 2))
	for len(text) > 0 {
		event := record(t, &text)
		require.Greater(t, math.Float64frombits(binary.LittleEndian.Uint64(field(t, event, 1))), 1.7e9, "seconds since 1970")
		for summary := field(t, event, 5); len(summary) > 0; {
			length, n := binary.Uvarint(summary[1:])
			value := summary[1+n : 1+n+int(length)]
			summary = summary[1+n+int(length):]
			x := math.Float32frombits(binary.LittleEndian.Uint32(field(t, value, 2)))
			scalars = append(scalars, scalar{int(varint(t, event, 2)), string(field(t, value, 1)), x})
		}
	}
	return scalars, from
}

// record takes the next record off.
func record(t *testing.T, text *[]byte) []byte {
	length := int(binary.LittleEndian.Uint64(*text))
	require.Equal(t, maskedCRC((*text)[:8]), binary.LittleEndian.Uint32((*text)[8:]))
	event := (*text)[12 : 12+length]
	require.Equal(t, maskedCRC(event), binary.LittleEndian.Uint32((*text)[12+length:]))
	*text = (*text)[16+length:]
	return event
}

// field finds the bytes of a field, nil if there is none.
func field(t *testing.T, message []byte, number uint64) []byte {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		message = message[n:]
		length := 0
		switch key & 7 {
		case 0:
			_, length = binary.Uvarint(message)
		case 1:
			length = 8
		case 5:
			length = 4
		case 2:
			size, n := binary.Uvarint(message)
			message, length = message[n:], int(size)
		default:
			require.Fail(t, "wire type", "%d", key)
		}
		if key>>3 == number {
			return message[:length]
		}
		message = message[length:]
	}
	return nil
}

func varint(t *testing.T, message []byte, number uint64) uint64 {
	x, n := binary.Uvarint(field(t, message, number))
	require.Positive(t, n)
	return x
}

package parallel

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/goggml/ggml/internal/filelink"
)

// Text returns rank 0's text on all ranks.
func (g *World) Text(ctx context.Context, own string) (string, error) {
	text, err := g.Broadcast(ctx, []byte(own))
	return string(text), err
}

// File gives a file of rank 0 to all ranks: it returns path on rank 0, and the path of a copy elsewhere, which
// remove deletes. If rank 0 has no such file, it returns "" on all ranks.
func (g *World) File(ctx context.Context, path string) (copied string, remove func(), err error) {
	remove = func() {}
	if ctx == nil {
		return "", remove, errNoContext
	}
	if g.isAlone() {
		if _, err := os.Stat(path); path == "" || errors.Is(err, fs.ErrNotExist) {
			return "", remove, nil
		}
		return path, remove, nil
	}
	var file *os.File
	size := []float64{0}
	if g.Rank() == 0 {
		var info fs.FileInfo
		if file, info, err = filelink.Open(path); err == nil {
			defer file.Close()
			size[0] = 1 + float64(info.Size())
		}
		if path == "" || errors.Is(err, fs.ErrNotExist) {
			err = nil
		} else if err != nil {
			size[0] = -1
		}
	} else if file, err = os.CreateTemp("", "goggml-*.gguf"); err == nil {
		defer file.Close()
		name := file.Name()
		remove = func() { os.Remove(name) }
	}
	if sumErr := g.AllReduce(ctx, size); sumErr != nil {
		return "", remove, sumErr
	}
	switch {
	case err != nil:
		return "", remove, err
	case size[0] < 0:
		return "", remove, errors.New("rank 0 cannot read the file")
	case size[0] == 0:
		return "", remove, nil
	}
	block := make([]byte, 1<<22)
	for left := int64(size[0]) - 1; left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		if g.Rank() == 0 {
			_, err = io.ReadFull(file, block)
		}
		sent, sendErr := g.Broadcast(ctx, block)
		if sendErr != nil {
			return "", remove, sendErr
		}
		if g.Rank() != 0 {
			_, writeErr := file.Write(sent)
			err = errors.Join(err, writeErr)
		}
	}
	return file.Name(), remove, err
}

package data

import (
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml/internal/limits"
)

// eachBlock reads size bytes of a file from an offset in blocks, and calls do for each, on all
// processors. The last block may be shorter.
func eachBlock(file io.ReaderAt, offset, size, blockSize int64, do func(i int, block []byte) error) error {
	workers := limits.Processors()
	var group errgroup.Group
	for worker := range workers {
		group.Go(func() error {
			block := make([]byte, min(size, blockSize))
			for i := worker; int64(i)*blockSize < size; i += workers {
				from := int64(i) * blockSize
				part := block[:min(blockSize, size-from)]
				if _, err := file.ReadAt(part, offset+from); err != nil {
					return err
				}
				if err := do(i, part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

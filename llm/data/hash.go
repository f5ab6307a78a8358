package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// hashPart is how much of a file one processor hashes at a time.
const hashPart = 4 << 20

// HashFiles is a hash of the contents of files, in their order, for the key of a cache.
// All of them is read, on all processors, which takes about a second a gigabyte: times
// and sizes of files miss changes.
func HashFiles(paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if err := hashFile(h, path); err != nil {
			return "", err
		}
	}
	return shortHash(h), nil
}

// hashFile adds the size of a file, and the SHA-256 of each part.
func hashFile(h io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file: its contents can be read once only", path)
	}
	size, workers := info.Size(), runtime.GOMAXPROCS(0)
	sums := make([][sha256.Size]byte, (size+hashPart-1)/hashPart)
	var group errgroup.Group
	for worker := range workers {
		group.Go(func() error {
			part := make([]byte, min(size, hashPart))
			for i := worker; i < len(sums); i += workers {
				from := int64(i) * hashPart
				n, err := file.ReadAt(part[:min(hashPart, size-from)], from)
				if err != nil {
					return fmt.Errorf("%s changes, or cannot be read: %w", path, err)
				}
				sums[i] = sha256.Sum256(part[:n])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	binary.Write(h, binary.LittleEndian, size)
	for _, sum := range sums {
		h.Write(sum[:])
	}
	return nil
}

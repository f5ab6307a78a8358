package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// hashBlock is how much of a file one processor hashes at a time.
const hashBlock = 4 << 20

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

// hashFile adds the size of a file, and the SHA-256 of each block.
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
	size := info.Size()
	sums := make([][sha256.Size]byte, (size+hashBlock-1)/hashBlock)
	err = eachBlock(file, 0, size, hashBlock, func(i int, block []byte) error {
		sums[i] = sha256.Sum256(block)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s changes, or cannot be read: %w", path, err)
	}
	binary.Write(h, binary.LittleEndian, size)
	for _, sum := range sums {
		h.Write(sum[:])
	}
	return nil
}

package data

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/limits"
)

// hashBlock is the number of bytes per read: disks are twice as fast as with blocks of the system's
// read-ahead size.
const hashBlock = 4 << 20

// HashFiles returns the SHA-256 of the contents of each file in hexadecimal, as sha256sum writes it,
// for the key of a cache: times and sizes of files miss changes. Files are read in parallel; a
// gigabyte takes most of a second on a processor with instructions for SHA-256.
func HashFiles(paths ...string) ([]string, error) {
	sums := make([]string, len(paths))
	var group errgroup.Group
	group.SetLimit(limits.Processors())
	for i, path := range paths {
		group.Go(func() (err error) {
			sums[i], err = hashFile(path)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return sums, nil
}

func hashFile(path string) (string, error) {
	file, info, err := filelink.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return hashBlocks(file, min(hashBlock, info.Size()+1))
}

// hashBlocks hashes one block while it reads the next.
func hashBlocks(r io.Reader, size int64) (string, error) {
	free, filled := make(chan []byte, 2), make(chan []byte)
	free <- make([]byte, size)
	free <- make([]byte, size)
	var group errgroup.Group
	group.Go(func() error {
		defer close(filled)
		for {
			block := <-free
			n, err := io.ReadFull(r, block)
			filled <- block[:n]
			switch {
			case err == io.EOF || err == io.ErrUnexpectedEOF:
				return nil
			case err != nil:
				return err
			}
		}
	})
	h := sha256.New()
	for block := range filled {
		h.Write(block)
		free <- block[:size]
	}
	return hex.EncodeToString(h.Sum(nil)), group.Wait()
}

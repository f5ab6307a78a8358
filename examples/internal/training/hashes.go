package training

import (
	"os"

	"github.com/goggml/ggml/llm/data"
)

// fileHashes are the SHA-256 of the files that a program reads. Each is hashed once,
// whoever asks: the manifest of a run folder, and the key of the token cache.
type fileHashes map[string]hashedFile

type hashedFile struct {
	info os.FileInfo // as it was hashed
	sum  string
}

// of gives the hashes of files. One that was written to since is hashed again.
func (h *fileHashes) of(paths ...string) ([]string, error) {
	if *h == nil {
		*h = fileHashes{}
	}
	var missing []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if known := (*h)[path]; known.sum == "" || known.isOlder(info) {
			(*h)[path] = hashedFile{info: info}
			missing = append(missing, path)
		}
	}
	sums, err := data.HashFiles(missing...)
	if err != nil {
		return nil, err
	}
	for i, path := range missing {
		(*h)[path] = hashedFile{(*h)[path].info, sums[i]}
	}
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = (*h)[path].sum
	}
	return all, nil
}

// isOlder reports whether the file is another one now, or has been written to.
func (f hashedFile) isOlder(now os.FileInfo) bool {
	return !os.SameFile(f.info, now) || f.info.Size() != now.Size() || !f.info.ModTime().Equal(now.ModTime())
}

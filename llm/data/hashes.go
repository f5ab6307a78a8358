package data

import (
	"os"
	"sync"
)

// Hashes caches the SHA-256 of files that a program reads, so that each is hashed once, for example
// for [Load]'s cache and for the description of a run. The zero value is ready for use; nil caches
// nothing. It is safe for concurrent use.
type Hashes struct{ known map[string]hashedFile }

// hashing is held during each call of Of. It is not a field, so that a Hashes can be copied.
var hashing sync.Mutex

type hashedFile struct {
	info os.FileInfo // at the time of hashing
	sum  string
}

// Of returns the hashes of files as [HashFiles] does. A file that has been written to since is hashed
// again.
func (h *Hashes) Of(paths ...string) ([]string, error) {
	if h == nil {
		h = &Hashes{}
	}
	hashing.Lock()
	defer hashing.Unlock()
	if h.known == nil {
		h.known = map[string]hashedFile{}
	}
	infos := map[string]os.FileInfo{} // files to hash
	var missing []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if known, ok := h.known[path]; (!ok || known.isOlder(info)) && infos[path] == nil {
			infos[path] = info
			missing = append(missing, path)
		}
	}
	sums, err := HashFiles(missing...)
	if err != nil {
		return nil, err
	}
	for i, path := range missing {
		h.known[path] = hashedFile{infos[path], sums[i]}
	}
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = h.known[path].sum
	}
	return all, nil
}

// isOlder reports whether the file has been replaced or written to since.
func (f hashedFile) isOlder(now os.FileInfo) bool {
	return !os.SameFile(f.info, now) || f.info.Size() != now.Size() || !f.info.ModTime().Equal(now.ModTime())
}

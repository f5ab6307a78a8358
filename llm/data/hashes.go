package data

import (
	"os"
	"sync"
)

// Hashes are the SHA-256 of the files that a program reads: each is hashed once, whoever asks, such as [Load] for its cache
// and who writes down what a run was made of. The zero value is ready for use; nil
// remembers none. It is safe for concurrent use.
type Hashes struct{ known map[string]hashedFile }

// hashing is held by each call of Of. It is not a field, so that a Hashes can be copied.
var hashing sync.Mutex

type hashedFile struct {
	info os.FileInfo // as it was hashed
	sum  string
}

// Of gives the hashes of files as [HashFiles] does. One that was written to since is hashed again.
func (h *Hashes) Of(paths ...string) ([]string, error) {
	if h == nil {
		h = &Hashes{}
	}
	hashing.Lock()
	defer hashing.Unlock()
	if h.known == nil {
		h.known = map[string]hashedFile{}
	}
	infos := map[string]os.FileInfo{} // of those to hash
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

// isOlder reports whether the file is another one now, or has been written to.
func (f hashedFile) isOlder(now os.FileInfo) bool {
	return !os.SameFile(f.info, now) || f.info.Size() != now.Size() || !f.info.ModTime().Equal(now.ModTime())
}

package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// digestVersion changes when the same tools give other parts.
const digestVersion = "cellblock catalog 1"

// buildDigest digests what the parts are made from, which is cheaper than to
// make them: they are functions of it.
func (c *Catalog) buildDigest() [32]byte {
	d := digester{sha256.New()}
	d.text(digestVersion)
	for _, e := range c.entries {
		t := &e.tool
		d.text(e.id)
		d.text(t.Name)
		d.text(t.Label)
		d.text(t.Description)
		d.text(e.source)
		d.text(e.sourceName)
		d.bytes(t.Parameters)
		d.bytes(t.OutputSchema)
	}
	d.text("servers")
	for _, s := range c.surface().servers {
		d.text(s.id)
		d.text(s.name)
		d.text(s.owner)
		d.text(s.description)
		for i := range serverOps {
			d.flag(*serverOps[i].pick(&s.desc) != nil)
		}
	}
	d.text("files")
	for _, f := range c.cfg.Files {
		d.text(f.Path)
		d.text(f.Description)
		d.text(f.Content)
	}
	return [32]byte(d.h.Sum(nil))
}

type digester struct{ h hash.Hash }

func (d digester) text(s string) { d.bytes([]byte(s)) }

func (d digester) bytes(b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	d.h.Write(n[:])
	d.h.Write(b)
}

func (d digester) flag(on bool) {
	if on {
		d.text("1")
	} else {
		d.text("0")
	}
}

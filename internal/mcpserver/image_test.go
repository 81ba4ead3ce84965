package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/internal/picture"
)

// webpDot is a lossless WebP of one pixel.
const webpDot = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

func drawing(w, h int) *image.Paletted {
	m := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White, color.RGBA{200, 30, 30, 255}})
	for i := range m.Pix {
		m.Pix[i] = uint8(i % 3)
	}
	return m
}

// pictures are one of each kind.
func pictures(t testing.TB) map[string][]byte {
	t.Helper()
	var p, j, g bytes.Buffer
	if err := png.Encode(&p, drawing(40, 30)); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, drawing(40, 30), nil); err != nil {
		t.Fatal(err)
	}
	all := &gif.GIF{Image: []*image.Paletted{drawing(40, 30), drawing(40, 30)}, Delay: []int{1, 1}}
	if err := gif.EncodeAll(&g, all); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"image/png": p.Bytes(), "image/jpeg": j.Bytes(), "image/gif": g.Bytes(), "image/webp": must(base64.StdEncoding.DecodeString(webpDot))}
}

// chunk is a part of a PNG.
func chunk(name string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// hostile are files that pretend to be pictures, or are more than that.
func hostile(t testing.TB) map[string][]byte {
	all := pictures(t)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	p, j, g, w := all["image/png"], all["image/jpeg"], all["image/gif"], all["image/webp"]
	html := []byte("<!doctype html><script>alert(1)</script>")
	wide := bytes.Clone(p)
	binary.BigEndian.PutUint32(wide[16:], 60_000)
	binary.BigEndian.PutUint32(wide[20:], 60_000)
	binary.BigEndian.PutUint32(wide[29:], crc32.ChecksumIEEE(wide[12:29]))
	bad := bytes.Clone(p)
	bad[len(bad)-20] ^= 1
	bomb := &gif.GIF{Config: image.Config{Width: 4000, Height: 4000}}
	blank := image.NewPaletted(image.Rect(0, 0, 4000, 4000), color.Palette{color.Black, color.White})
	for range 3 {
		bomb.Image, bomb.Delay = append(bomb.Image, blank), append(bomb.Delay, 0)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, bomb); err != nil {
		t.Fatal(err)
	}
	tail := bytes.Clone(w)
	long := bytes.Clone(w)
	binary.LittleEndian.PutUint32(long[4:], 0xfffffff0)
	return map[string][]byte{
		"SVG":                    []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"HTML":                   html,
		"PDF":                    []byte("%PDF-1.7\n"),
		"nothing":                {},
		"PNG's first bytes":      join(p[:8], html),
		"PNG cut":                p[:len(p)-30],
		"PNG without its end":    p[:len(p)-12],
		"PNG of wrong sums":      bad,
		"PNG with a page behind": join(p, html),
		"PNG with a zip behind":  join(p, []byte("PK\x03\x04")),
		"PNG of 60,000 × 60,000": wide,
		"APNG":                   join(p[:33], chunk("acTL", make([]byte, 8)), p[33:]),
		"PNG, one part too long": join(p[:33], []byte{0x7f, 0xff, 0xff, 0xff}, p[37:]),
		"JPEG's first bytes":     join(j[:4], html),
		"JPEG cut":               j[:len(j)/2],
		"JPEG with a page":       join(j, html),
		"JPEG with a page, end":  join(j, html, []byte{0xff, 0xd9}),
		"JPEG twice":             join(j, j),
		"GIF's first bytes":      join([]byte("GIF89a"), html),
		"GIF cut":                g[:len(g)-5],
		"GIF with a page":        join(g, html),
		"GIF of three frames":    b.Bytes(),
		"WebP's first bytes":     join(w[:12], html),
		"WebP with a page":       join(tail, html),
		"WebP of a wrong length": long,
		"WebP cut":               w[:len(w)-6],
		"RIFF":                   []byte("RIFF\x04\x00\x00\x00WAVE"),
		"spaces before":          join([]byte(" "), p),
		"large":                  join(p[:33], chunk("tEXt", make([]byte, picture.MaxFile)), p[33:]),
	}
}

// A picture is one by its bytes, from the first to the last, and of a bounded size.
//
// proves part of H-82
func TestProveImage(t *testing.T) {
	for want, b := range pictures(t) {
		pixels := int64(picture.MaxPixels)
		if got, err := picture.Prove(b, &pixels); got != want || err != nil || pixels == picture.MaxPixels {
			t.Errorf("control: %s: %q %v", want, got, err)
		}
		none := int64(0)
		if got, err := picture.Prove(b, &none); err == nil {
			t.Errorf("%s without room is %q", want, got)
		}
	}
	for name, b := range hostile(t) {
		pixels := int64(picture.MaxPixels)
		if got, err := picture.Prove(b, &pixels); err == nil || got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// FuzzProveImage asks that no file makes the server fail, or decode more than it may.
//
// proves part of H-48
func FuzzProveImage(f *testing.F) {
	for _, b := range pictures(f) {
		f.Add(b)
	}
	for _, b := range hostile(f) {
		if len(b) < 10_000 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pixels := int64(1 << 20)
		mime, err := picture.Prove(b, &pixels)
		if (err == nil) != (mime != "") || pixels < 0 || pixels > 1<<20 {
			t.Fatalf("%q %v %d", mime, err, pixels)
		}
	})
}

// Pictures that a program leaves are shown by what they are and not by their names;
// everything else is bytes, and nothing that a browser would run has a type that it
// would run by.
//
// proves part of H-82
func TestImagesOfARun(t *testing.T) {
	cs := local(t, server(t))
	all := pictures(t)
	h := hostile(t)
	var files []obj
	add := func(name string, b []byte) {
		files = append(files, obj{"name": name, "content": base64.StdEncoding.EncodeToString(b), "encoding": "base64"})
	}
	add("run.sh", []byte("ls"))
	add("a.html", all["image/png"])
	add("b.txt", all["image/webp"])
	add("c.png", []byte(h["SVG"]))
	add("d.png", h["PNG with a page behind"])
	add("e.jpg", []byte("caf\xe9"))
	add("f.png", []byte("plain words\n"))
	got, r := callTool(t, cs, "run_code", obj{"language": "bash", "files": files, "artifacts": []string{"*"}})
	want := map[string]string{"a.html": "image/png", "b.txt": "image/webp", "c.png": "text/plain; charset=utf-8", "d.png": "application/octet-stream",
		"e.jpg": "application/octet-stream", "f.png": "text/plain; charset=utf-8", "run.sh": "text/plain; charset=utf-8"}
	list, _ := at(got, "untrusted", "artifacts").([]any)
	for _, a := range list {
		name, _ := at(a, "name").(string)
		if at(a, "mime_type") != want[name] {
			t.Errorf("%s is %v, want %q", name, at(a, "mime_type"), want[name])
		}
		uri, _ := at(a, "uri").(string)
		res, err := cs.ReadResource(minute(t), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		if c := res.Contents[0]; c.MIMEType != want[name] || (c.Blob != nil) == strings.HasPrefix(c.MIMEType, "text/") {
			t.Errorf("%s: %+v", name, c)
		}
		delete(want, name)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v in %v", want, got)
	}
	images := map[string]bool{}
	for _, c := range r.Content {
		if i, ok := c.(*mcp.ImageContent); ok {
			images[i.MIMEType] = true
			if !bytes.Equal(i.Data, all[i.MIMEType]) || i.Meta[untrustedKey] != true {
				t.Errorf("%s: other bytes, or %v", i.MIMEType, i.Meta)
			}
		}
	}
	if len(images) != 2 || !images["image/png"] || !images["image/webp"] {
		t.Errorf("%v", images)
	}
}

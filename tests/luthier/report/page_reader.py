"""Reads a page as a browser would: ids, links, addresses, tables; complains about tags that do not match."""

from html.parser import HTMLParser

VOID = {"br", "col", "hr", "meta", "wbr"}


class PageReader(HTMLParser):
    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.ids, self.attributes, self.tags, self.open = [], [], [], []
        self.tables, self.texts, self._cell = [], [], None
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append({"caption": "", "rows": []})
        elif tag == "tr":
            self.tables[-1]["rows"].append([])
        elif tag in ("td", "th"):
            self.tables[-1]["rows"][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a start"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, text):
        self.texts.append(text)
        if "td" in self.open or "th" in self.open:
            self.tables[-1]["rows"][-1][-1] += text
        elif "caption" in self.open:
            self.tables[-1]["caption"] += text

    @property
    def text(self):
        return "".join(self.texts)

    def table(self, caption):
        """Heading cells and rows by first cell, of the first table whose caption starts so."""
        found = next(table for table in self.tables if table["caption"].startswith(caption))
        head, *rows = found["rows"]
        return head, {row[0]: dict(zip(head, row, strict=True)) for row in rows}

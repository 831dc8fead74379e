"""A document that would do harm if it were anything but text."""

HOSTILE = """# Title <script>window.ran = 1</script>

</script><script>window.ran = 2</script><img src=x onerror="window.ran = 3">
[click](javascript:window.ran=4) [data](data:text/html,<script>window.ran=5</script>) <b onclick="window.ran=6">bold</b>
![picture](https://example.org/p.png) [![inner](https://example.org/q.png)](https://example.org/page)
[web](https://example.org/?a=1&b="2" "t\\" onmouseover=window.ran=7") [chapter](ch02.md) <https://example.org/auto>

<style>body { display: none }</style> &lt;script&gt; \u2028\u2029 \u202ereversed\u202c \u05e9\u05dc\u05d5\u05dd \u0001
<!--

| left | right |
|:-----|------:|
| a    | b     |

"""
WORD = "w" * 5000

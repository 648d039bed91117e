"""The vocabulary of the generated checkpoint: words, characters with and without a space before them, and a few multi-byte characters.

Every token is text that a reader sees, apart from three kinds of white space.
"""

UNKNOWN = "\u25a1"
END = "\u220e"
SILENT = (UNKNOWN, " ", "\n", "\t")  # can be read in a prompt; the generated model never says them

_CHARACTERS = tuple(chr(code) for code in range(33, 127))
_MULTI_BYTE = tuple(
    "éèêàçñöüäßøåœ¿¡«»°±×÷µ§€£¥漢字日本語中文東京水火山川人あいうえおかアイウ가나다αβγδλπσωΩжшяЖ≈≠≤≥∞√∑∂→←↔✓★☂♞🙂🚀🎉🔥🌍🐍💡🧪"
)
_OPENERS = """
    The A An In It This What Why How When Who Write List Tell Hello Hi Yes No Please Once def class return import user assistant system
""".split()
_WORDS = """
    a about above across after again against air all almost alone along already also always among an and animal another answer any are
    around as ask at away back balance be beach became because become before began behind being below best better between big bird
    black blue boat body book both bread bridge bring brown build but by call came can capital car carry cat cause change child city
    class clean clear close cloud coast code cold come common could count country course cut dark day deep def did different do does
    dog done door down draw dream drive dry each early earth east easy eat end enough even evening ever every example eye face fact
    fall family far farm fast father feel few field find fire first fish five floor flower fly follow food foot for forest form four
    free fresh friend from front full garden gave get give glass go gold good great green ground group grow had half hand happy hard
    has have he head hear heart heavy held help her here high hill his hold home horse hot hour house how hundred ice idea if import
    in inside into iron is island it its just keep kind king knew know lake land language large last late laugh lay lead learn leave
    left less let letter life light like line list listen little live long look lost lot love low machine made make man many map mark
    may me mean measure meet metal middle might mile milk mind minute mirror model moment money month moon more morning most mother
    mountain mouth move much music must my name near need never new next night no north not note nothing notice now number ocean of
    off often oil old on once one only open or order other our out over own page paint paper part pass past path people perhaps piece
    place plain plan plant play point power print problem pull put question quick quicksort quiet rain reach read ready real red
    remember rest return rich ride right river road rock room round run said sail salt same sand saw say school sea second see seed
    self sell send sentence serve set seven several shape she shell ship short should show side silver simple since sing sit six sky
    sleep slow small snow so soft some song soon sort sound south space speak spring stand star start state stay step still stone stop
    storm story street strong such summer sun sure table take talk tall teach tell ten than that the their them then there these they
    thin thing think this those thought thousand three through time to together told token too took top toward town train travel tree
    true try turn two under until up us use user very voice wait walk wall want war warm was watch water wave way we weather week well
    went were west what wheel when where which while white who whole why wide wild will wind window winter with without wood word work
    world would write year yellow yes yet you young your France Paris Hello assistant system server
""".split()


def tokens() -> list[str]:
    """Texts of the tokens by id; the first is the unknown token, the second ends a sequence."""
    spaced = [f" {text}" for text in (*_CHARACTERS, *_WORDS) if len(text) == 1 or text.isalpha()]
    return list(dict.fromkeys((UNKNOWN, END, *SILENT, *_CHARACTERS, *_MULTI_BYTE, *_OPENERS, *spaced)))

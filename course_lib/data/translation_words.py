"""The words of the generated sentence pairs: data only, read by
``translation_grammar``.

A noun is ``english gender singular plural`` in German (m, f, n); what follows a bar is
its other translation. Lists run from common to rare. English plurals are the word and a
piece ``-s`` of their own; German ones are words of their own.
"""

from __future__ import annotations

# of a word to the word that it depends on
RELATIONS = "root nsubj obj det amod compound plural case nmod acl aux mark advcl advmod year punct"

# two translations: the rarest noun of the sentence decides which
AMBIGUOUS = """
bank f Bank Banken | n Ufer Ufer
letter m Brief Briefe | n Schriftzeichen Schriftzeichen
table m Tisch Tische | f Tabelle Tabellen
key m Schlüssel Schlüssel | f Taste Tasten
ring m Ring Ringe | m Boxring Boxringe
plant f Pflanze Pflanzen | n Werk Werke
ball m Ball Bälle | n Tanzfest Tanzfeste
bow m Bogen Bögen | f Schleife Schleifen
match n Streichholz Streichhölzer | n Spiel Spiele
pen m Stift Stifte | n Gehege Gehege
light n Licht Lichter | f Lampe Lampen
nail m Nagel Nägel | m Fingernagel Fingernägel
court m Hof Höfe | n Gericht Gerichte
seal m Seehund Seehunde | n Siegel Siegel
pipe n Rohr Rohre | f Pfeife Pfeifen
trunk m Stamm Stämme | m Rüssel Rüssel
crane m Kranich Kraniche | m Kran Kräne
file f Akte Akten | f Feile Feilen
palm f Palme Palmen | f Handfläche Handflächen
bat f Fledermaus Fledermäuse | m Schläger Schläger
scale f Waage Waagen | f Schuppe Schuppen
port m Hafen Häfen | m Portwein Portweine
mole m Maulwurf Maulwürfe | m Leberfleck Leberflecke
spring f Quelle Quellen | f Feder Federn
"""

COMMON = """
dog m Hund Hunde
cat f Katze Katzen
house n Haus Häuser
teacher m Lehrer Lehrer
girl n Mädchen Mädchen
tree m Baum Bäume
car n Auto Autos
sister f Schwester Schwestern
book n Buch Bücher
brother m Bruder Brüder
street f Straße Straßen
horse n Pferd Pferde
garden m Garten Gärten
door f Tür Türen
doctor m Arzt Ärzte
flower f Blume Blumen
window n Fenster Fenster
bird m Vogel Vögel
queen f Königin Königinnen
picture n Bild Bilder
train m Zug Züge
cow f Kuh Kühe
song n Lied Lieder
king m König Könige
school f Schule Schulen
ship n Schiff Schiffe
river m Fluss Flüsse
bridge f Brücke Brücken
shirt n Hemd Hemden
mountain m Berg Berge
aunt f Tante Tanten
uncle m Onkel Onkel
bottle f Flasche Flaschen
chair m Stuhl Stühle
farmer m Landwirt Landwirte
coat m Mantel Mäntel
"""

RARE = (
    """
anchor m Anker Anker
island f Insel Inseln
whale m Wal Wale
shell f Muschel Muscheln
net n Netz Netze
oar n Ruder Ruder
raft n Floß Flöße
lagoon f Lagune Lagunen
gull f Möwe Möwen
crab f Krabbe Krabben
dolphin m Delfin Delfine
reef n Riff Riffe
storm m Sturm Stürme
canoe n Kanu Kanus
meadow f Wiese Wiesen
forest m Wald Wälder
squirrel n Eichhörnchen Eichhörnchen
badger m Dachs Dachse
owl f Eule Eulen
hedgehog m Igel Igel
lighthouse m Leuchtturm Leuchttürme
captain m Kapitän Kapitäne
""",
    """
judge m Richter Richter
engineer m Ingenieur Ingenieure
hammer m Hammer Hämmer
ladder f Leiter Leitern
screw f Schraube Schrauben
motor m Motor Motoren
workshop f Werkstatt Werkstätten
office n Büro Büros
contract m Vertrag Verträge
invoice f Rechnung Rechnungen
camera f Kamera Kameras
computer m Rechner Rechner
keyboard f Tastatur Tastaturen
violin f Geige Geigen
piano n Klavier Klaviere
trumpet f Trompete Trompeten
actor m Schauspieler Schauspieler
theater n Theater Theater
ticket f Karte Karten
helmet m Helm Helme
goal n Tor Tore
trainer m Trainer Trainer
""",
)  # of the first topic (out of doors) and of the second (in town)

# two English words, one German one: the second noun's gender and plural
COMPOUNDS = """
apple tree m Apfelbaum Apfelbäume
garden door f Gartentür Gartentüren
house door f Haustür Haustüren
school book n Schulbuch Schulbücher
school garden m Schulgarten Schulgärten
car door f Autotür Autotüren
train window n Zugfenster Zugfenster
garden chair m Gartenstuhl Gartenstühle
flower garden m Blumengarten Blumengärten
song book n Liederbuch Liederbücher
picture book n Bilderbuch Bilderbücher
"""

# infinitive, past, participle; in German infinitive, past of one, past of many,
# participle
TRANSITIVE = """
see saw seen sehen sah sahen gesehen
find found found finden fand fanden gefunden
hear heard heard hören hörte hörten gehört
buy bought bought kaufen kaufte kauften gekauft
love loved loved lieben liebte liebten geliebt
carry carried carried tragen trug trugen getragen
paint painted painted malen malte malten gemalt
know knew known kennen kannte kannten gekannt
sell sold sold verkaufen verkaufte verkauften verkauft
clean cleaned cleaned putzen putzte putzten geputzt
"""
INTRANSITIVE = """
sleep slept slept schlafen schlief schliefen geschlafen
laugh laughed laughed lachen lachte lachten gelacht
work worked worked arbeiten arbeitete arbeiteten gearbeitet
wait waited waited warten wartete warteten gewartet
sing sang sung singen sang sangen gesungen
dance danced danced tanzen tanzte tanzten getanzt
"""
MODALS = "could konnte konnten\nshould sollte sollten"
PERFECT = "had hatte hatten"
ADJECTIVES = (
    "old alt|new neu|small klein|big groß|red rot|green grün|young jung|good gut|white weiß|heavy"
    " schwer|cold kalt|black schwarz|strange seltsam"
)
ADVERBS = "yesterday gestern|today heute|often oft|never nie|suddenly plötzlich|there dort"
PREPOSITIONS = "with mit|near neben|behind hinter|under unter"  # all with the dative here
CONJUNCTIONS = "because weil|although obwohl|when als|before bevor"

# articles by case (nominative, accusative, dative), then masculine, feminine, neuter,
# plural; "-": none
DETERMINERS = {
    "the": ("der die das die", "den die das die", "dem der dem den"),
    "this": (
        "dieser diese dieses diese",
        "diesen diese dieses diese",
        "diesem dieser diesem diesen",
    ),
    "a": ("ein eine ein -", "einen eine ein -", "einem einer einem -"),
    "my": ("mein meine mein meine", "meinen meine mein meine", "meinem meiner meinem meinen"),
}
# endings of adjectives behind "der"-words, "ein"-words, and without an article in the
# plural
ENDINGS = {
    "definite": ("e e e en", "en e e en", "en en en en"),
    "indefinite": ("er e es en", "en e es en", "en en en en"),
    "none": ("- - - e", "- - - e", "- - - en"),
}
RELATIVE = "der die das die"
PERSONAL = ("er sie es", "ihn sie es")  # nominative, accusative, of "it"
